"""The docker daemon is killed by SIGKILL and started again: what clients see, and what `lbgen up` makes of it.

Only when asked for, as everything else on that daemon is hit too: `--daemon-drill -s`, as root. It is started again by
its own command line, unless somebody else does that.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import client
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, REAL, first_port, name_of, single
from tests.support.engine_lists import of_this_kernel
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [
    *IN_CONTAINERS,
    AS_ROOT,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("outlives")
PORTS = first_port(800)
DEAD_SECONDS = 3.0
BACK_SECONDS = 90.0
OTHERS_SECONDS = 5.0  # in which a service manager would start it again


@dataclass(frozen=True)
class Dockerd:
    """The process that listens on the daemon's socket, and all that is needed to start it anew."""

    pid: int
    argv: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    directory: str

    @classmethod
    def here(cls) -> Dockerd:
        """Skips the test when what listens is not a daemon that could be started again."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(REAL)
            pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid <= 1 or Path(f"/proc/{pid}/comm").read_text().strip() != "dockerd":
            pytest.skip(f"the socket is not held by dockerd but by process {pid}")
        argv = tuple(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1])
        pairs = (x.partition(b"=") for x in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if x)
        return cls(pid, argv, {name: value for name, _, value in pairs}, str(Path(f"/proc/{pid}/cwd").readlink()))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        while _alive(self.pid):
            time.sleep(0.01)

    def start(self, log: Path) -> str:
        """Who started it: us, unless somebody else did before."""
        end = time.monotonic() + OTHERS_SECONDS
        while time.monotonic() < end:
            if client.why_unavailable() is None:
                return "its service manager"
            time.sleep(0.2)
        with log.open("wb") as output:
            subprocess.Popen(
                self.argv,
                env=self.environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # it outlives the test
            )
        end = time.monotonic() + BACK_SECONDS
        while client.why_unavailable() is not None:
            assert time.monotonic() < end, f"dockerd does not come back:\n{log.read_text()[-2000:]}"
            time.sleep(0.2)
        return "this test"


def _alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_daemon_that_is_killed(daemon: DockerClient, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--daemon-drill"):
        pytest.skip("kills the docker daemon of this machine: --daemon-drill")
    dockerd = Dockerd.here()
    made = single(NAME, free_port("127.0.0.1", PORTS), "l4")  # which all engines know
    stack = lbgen.up(made, of_this_kernel(), runtime="docker", accept=("all",))
    there = {x.record.engine: x for x in list_containers(daemon, NAME) if x.record.role is Role.ENGINE}
    inside = {name: address_of(daemon, x.handle.attrs) for name, x in there.items()}
    with ExitStack() as held:
        clients = {}
        for name in there:
            port = stack.address("web", name).port
            clients[name, "published"] = held.enter_context(traffic(port, "app", 0.05))
            clients[name, "direct"] = held.enter_context(traffic(port, "app", 0.05, host=inside[name]))
        time.sleep(1)
        assert not [key for key, seen in clients.items() if seen.lost]
        before = {key: seen.good for key, seen in clients.items()}
        dockerd.kill()
        time.sleep(DEAD_SECONDS)
        dead = {key: (seen.good - before[key], len(seen.lost)) for key, seen in clients.items()}
        with pytest.raises(EngineError, match="LB420"):
            lbgen.up(made, of_this_kernel(), runtime="docker", accept=("all",))
        begun = time.monotonic()
        starter = dockerd.start(tmp_path / "dockerd.log")
        answers = time.monotonic() - begun
        again = lbgen.up(made, of_this_kernel(), runtime="docker", accept=("all",))
        took = time.monotonic() - begun - answers
        after = {key: (seen.good, len(seen.lost)) for key, seen in clients.items()}
        time.sleep(2)
        late = {key: len(seen.lost) - after[key][1] for key, seen in clients.items() if key[1] == "published"}
        good = {key: seen.good - after[key][0] for key, seen in clients.items() if key[1] == "published"}
    print(f"\nstarted by {starter}, answers after {answers:.1f} s, `lbgen up` took {took:.1f} s")  # noqa: T201
    for (name, way), (fine, lost) in sorted(dead.items()):
        total = after[name, way][1]
        print(f"{name} {way}: daemon dead: {fine} answered, {lost} lost; until `up` returned: {total} lost")  # noqa: T201
    assert all(good.values()), good
    assert not any(late.values()), late
    assert {x.name for x in again.engines if x.running} == set(of_this_kernel())
    assert lbgen.up(made, of_this_kernel(), runtime="docker", accept=("all",)).unchanged
    assert (
        len(list_containers(client.connect(), NAME)) == 2 * len(of_this_kernel()) + 1
    )  # each with the one that has its ports, and the stand-ins
    [listed] = [each for each in api.ps() if each.name == NAME]
    assert all(each.running for each in listed.engines)


def address_of(daemon: DockerClient, attrs: dict[str, Any]) -> str:
    """Of an engine's container, which has that of the one with its ports."""
    owner = attrs["HostConfig"]["NetworkMode"].removeprefix("container:")
    networks = daemon.containers.get(owner).attrs["NetworkSettings"]["Networks"]
    return next(str(x["IPAddress"]) for x in networks.values() if x["IPAddress"])
