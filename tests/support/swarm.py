"""A swarm of several nodes on this machine: a dockerd for each, in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker

from lbgen.runtime.local import network
from tests.support.daemon import REAL, with_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

_TOOLS = ("dockerd", "docker", "ip", "iptables", "nsenter", "setpriv", "unshare")
NUMBER = 3
_SECONDS = 30
# What each pool's endpoints are: nginx, which says who it is, and closes gracefully on SIGQUIT.
_ENDPOINT = """\
daemon off; worker_processes 1; pid /tmp/pid; error_log stderr;
events { worker_connections 1024; }
http {
    access_log off; default_type application/json; client_body_temp_path /tmp/b; proxy_temp_path /tmp/p;
    fastcgi_temp_path /tmp/f; uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
    server { listen 9000; location / { return 200 '{"pool":"app"}'; } }
}
"""


def why_unavailable() -> str:
    """Why no swarm can be made here, "" where one can be."""
    if os.geteuid():
        return "only root can make network namespaces"
    if missing := [name for name in _TOOLS if shutil.which(name) is None]:
        return f"no {', '.join(missing)}"
    return network.why_unavailable() and "no network namespaces can be made"


class Swarm:
    """Nodes are numbered from 1, which is the manager; `addresses` are theirs, as this machine reaches them."""

    def __init__(self, root: Path, number: int) -> None:
        self.root = root
        self._key = f"sw{os.getpid() % 100_000}"
        self._net = f"10.77.{1 + os.getpid() % 250}"
        self.addresses = [f"{self._net}.{10 + n}" for n in range(1, number + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []

    def url(self, node: int) -> str:
        return f"unix://{self.root}/n{node}/docker.sock"

    def client(self, node: int = 1) -> DockerClient:
        return docker.DockerClient(self.url(node), timeout=60)

    def docker(self, *argv: str, node: int = 1) -> str:
        """What a command of docker's says."""
        done = subprocess.run(
            ("docker", *argv), env={**os.environ, "DOCKER_HOST": self.url(node)}, capture_output=True, text=True
        )
        assert not done.returncode, f"docker {' '.join(argv)}: {done.stderr}"
        return done.stdout

    def start(self) -> None:
        """The bridge has a namespace of its own: docker's rules of this one drop what is bridged too."""
        key, bridge = self._key, f"{self._key}b"
        _ip(f"netns add {key}", f"-n {key} link set lo up", f"-n {key} link add bridge0 type bridge")
        _ip(f"-n {key} link set bridge0 up", f"link add {bridge} type veth peer name host netns {key}")
        _ip(
            f"-n {key} link set host master bridge0 up",
            f"addr add {self._net}.1/24 dev {bridge}",
            f"link set {bridge} up",
        )
        for node, address in enumerate(self.addresses, 1):
            inside = f"{key}n{node}"
            _ip(f"netns add {inside}", f"-n {key} link add n{node} type veth peer name eth0 netns {inside}")
            _ip(f"-n {key} link set n{node} master bridge0 up", f"-n {inside} link set lo up")
            _ip(f"-n {inside} link set eth0 up", f"-n {inside} addr add {address}/24 dev eth0")
            _ip(f"-n {inside} route add default via {self._net}.1")
            self._processes.append(self._dockerd(node, inside))
        for node in range(1, len(self.addresses) + 1):
            self._await(node)
        first = self.client()
        pool = ["10.200.0.0/16"]
        first.swarm.init(self.addresses[0], f"{self.addresses[0]}:2377", default_addr_pool=pool, subnet_size=24)
        token = first.swarm.attrs["JoinTokens"]["Worker"]
        for node, address in enumerate(self.addresses[1:], 2):
            self.client(node).swarm.join([f"{self.addresses[0]}:2377"], token, advertise_addr=address)

    def _dockerd(self, node: int, inside: str) -> subprocess.Popen[bytes]:
        """Not by `ip netns exec`, which mounts /sys anew, without cgroups. Look-ups of names are refused at once."""
        folder = self.root / f"n{node}"
        folder.mkdir()
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="ascii")
        script = (
            f"hostname n{node}; mount --bind {folder}/resolv.conf /etc/resolv.conf; exec dockerd "
            f"--data-root {folder}/data --exec-root {folder}/exec --pidfile {folder}/pid "
            f"-H unix://{folder}/docker.sock --cgroup-parent /{self._key}n{node}"
        )
        entered = ("setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/run/netns/{inside}")
        with (folder / "log").open("wb") as log:
            argv = (*entered, "unshare", "--mount", "--uts", "bash", "-c", script)
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _await(self, node: int) -> None:
        until = time.monotonic() + _SECONDS
        while True:
            try:
                self.client(node).ping()
            except docker.errors.DockerException:
                text = (self.root / f"n{node}/log").read_text(encoding="utf-8")[-2000:]
                assert time.monotonic() < until, f"dockerd {node} does not answer: {text}"
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS)
        _ip(f"link del {self._key}b", check=False)
        for name in (*(f"{self._key}n{n}" for n in range(1, len(self.addresses) + 1)), self._key):
            _ip(f"netns del {name}", check=False)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        for each in sorted((x for x in mounts if x.startswith(f"{self.root}/")), reverse=True):
            subprocess.run(("umount", "-l", each), check=False)

    def load(self, *references: str) -> None:
        """Bring images from this machine's daemon onto every node."""
        archive = self.root / "images.tar"
        env = {**os.environ, "DOCKER_HOST": f"unix://{REAL}"}
        subprocess.run(("docker", "save", "-o", str(archive), *references), check=True, env=env)
        for node in range(1, len(self.addresses) + 1):
            self.docker("load", "--quiet", "--input", str(archive), node=node)
        archive.unlink()

    def connected(self, node: int, *, to: bool) -> None:
        """Cut a node off, or take it back."""
        _ip(f"-n {self._key} link set n{node} {'up' if to else 'down'}")

    def availability(self, node: int, value: str) -> None:
        """`drain`, `active`."""
        self.docker("node", "update", "--availability", value, f"n{node}")

    def images(self) -> dict[str, str]:
        """The newest image of each engine, by its name."""
        found = [tag for image in self.client().images.list() for tag in image.tags]
        return {tag.split("/")[1].partition(":")[0]: tag for tag in sorted(found)}

    def endpoints(self, name: str, number: int) -> None:
        """A service that the pools of a topology name, on a network of the same name with `-net`."""
        client = self.client()
        client.networks.create(f"{name}-net", driver="overlay")
        config = client.configs.create(name=f"{name}-conf", data=_ENDPOINT.encode())
        image = client.images.get(self.images()["nginx"]).id
        file = {"Name": "/nginx.conf", "UID": "0", "GID": "0", "Mode": 0o444}
        probe = "exec 3<>/dev/tcp/127.0.0.1/9000"
        # It goes on until those in front have seen that its name has lost an address. There is no `sleep`.
        run = 'trap "read -rt 12 <> <(:); kill -QUIT %1; wait" QUIT; nginx -p /tmp -c /nginx.conf & wait; wait'
        container: dict[str, Any] = {
            "Image": image,
            "Command": ["/bin/bash", "-mc", run],
            "User": "65534",
            "StopSignal": "SIGQUIT",
            "StopGracePeriod": 30 * 10**9,
            "Configs": [{"ConfigID": config.id, "ConfigName": f"{name}-conf", "File": file}],
            "Mounts": [{"Type": "tmpfs", "Target": "/tmp"}],  # noqa: S108  # in the container
            "Healthcheck": {"Test": ["CMD", "/bin/bash", "-c", probe], "Interval": 10**9, "Retries": 2},
        }
        update = {"Parallelism": 1, "Order": "start-first", "Monitor": 2 * 10**9}
        client.api.create_service(
            {"ContainerSpec": container, "Networks": [{"Target": f"{name}-net", "Aliases": [name]}]},
            name=name,
            mode={"Replicated": {"Replicas": number}},
            update_config=update,
            endpoint_spec={"Mode": "dnsrr"},
        )
        self.scale(name, number)

    def scale(self, service: str, number: int) -> None:
        """Return when so many tasks of a service run."""
        self.docker("service", "scale", "--detach", f"{service}={number}")
        until = time.monotonic() + 2 * _SECONDS
        while len(running := self.tasks(service)) != number:
            assert time.monotonic() < until, f"{service}: {running} instead of {number}"
            time.sleep(0.2)

    def tasks(self, service: str) -> list[str]:
        """The nodes on which tasks of a service run, and should."""
        rows = self.docker("service", "ps", "--format", "json", service).splitlines()
        found = [x for x in map(json.loads, rows) if x["DesiredState"] == "Running"]
        return [x["Node"] for x in found if x["CurrentState"].startswith("Running")]


def _ip(*commands: str, check: bool = True) -> None:
    for each in commands:
        done = subprocess.run(("ip", *each.split()), capture_output=True, text=True)
        assert not (check and done.returncode), f"ip {each}: {done.stderr}"


@contextmanager
def swarm(root: Path, engines: tuple[str, ...], number: int = NUMBER) -> Iterator[Swarm]:
    """A swarm with the images of engines, which commands of lbgen's go to in this block."""
    daemon = with_images()
    tags = [tag for image in daemon.images.list() for tag in image.tags if tag.startswith("lbgen/")]
    newest = {tag.split("/")[1].partition(":")[0]: tag for tag in sorted(tags)}
    made = Swarm(root, number)
    with ExitStack() as cleanup:
        cleanup.callback(made.stop)
        made.start()
        made.load(*(newest[name] for name in dict.fromkeys((*engines, "nginx"))))
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = made.url(1)
        cleanup.callback(_restore, before)
        yield made


def _restore(before: str | None) -> None:
    del os.environ["DOCKER_HOST"]
    if before is not None:
        os.environ["DOCKER_HOST"] = before
