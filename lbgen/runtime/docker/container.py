"""Create containers with no more rights than they need, and operate on them; files lie in a volume of their own."""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.model import ContainerLimits
from lbgen.runtime.common import ports
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.docker import container_files, labels
from lbgen.runtime.docker.client import DOCKER_SOCKET, docker_errors
from lbgen.runtime.docker.helper_image import USER, WORK

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.container_files import File
    from lbgen.runtime.docker.labels import Record


_EXEC_LOOK_SECONDS = 0.01
_EXEC_SECONDS = 5.0  # for the exit status, once the output has ended
UNKNOWN = -1  # docker has no exit status


def exec_run(
    handle: Container,
    argv: Sequence[str],
    *,
    workdir: str | None = None,
    environment: Mapping[str, str] | None = None,
    stderr: bool = True,
) -> tuple[int, bytes]:
    """The exit status (or UNKNOWN) and the output. Raises docker's APIError.

    On a busy host the output may end before docker knows the exit status, and docker's SDK gives None for it.
    """
    api = handle.client.api
    made = api.exec_create(handle.id, list(argv), stderr=stderr, workdir=workdir, environment=dict(environment or {}))
    output: bytes = api.exec_start(made["Id"])
    end = time.monotonic() + _EXEC_SECONDS
    while (code := api.exec_inspect(made["Id"])["ExitCode"]) is None and time.monotonic() < end:
        time.sleep(_EXEC_LOOK_SECONDS)
    return (UNKNOWN if code is None else int(code)), output


OTHER_PROCESSOR = "exec format error"  # the kernel's message
_OTHER_PORT = "stop what listens there, or change the listener's port"
_LOG = {"max-size": "20m", "max-file": "3"}
_NOT_YET = frozenset({HTTPStatus.CONFLICT, HTTPStatus.INTERNAL_SERVER_ERROR})
_REMOVED_SECONDS = 5.0
_AGAIN_SECONDS = 0.2
_RUN_TMPFS = "rw,noexec,nosuid,nodev,mode=1777,size=64m"


class PortTakenError(EngineError):
    """LB404: `port`, to be published for `protocol`, is in use, or (`key`) its address is not of this host."""

    def __init__(self, diagnostic: Diagnostic, port: int, protocol: str, key: str = "port") -> None:
        super().__init__(diagnostic)
        self.port, self.protocol, self.key = port, protocol, key


class ContainerSpec(Struct, frozen=True):
    """The specification of a container.

    `files` go to WORK, the only writable folder beside /tmp. `address` is its address in the stack's network; `joins`
    names a container whose network namespace it shares instead, `inside` one whose process namespace and volumes it
    shares (and whose network, without `joins`); with `own_processes` it continues when that one ends. `networks` are
    connected in addition to the stack's. `published` are (host address, port, protocol); the port is the same inside.
    `capabilities` are the only ones kept, and need root inside. With `once` it is not restarted, and has no network
    unless one is given. `docker_socket` is that of this host, which it gets, and no network. `binds` are folders of
    this host, where it has them, and `rw` or `ro`.
    """

    name: str
    image: str
    argv: tuple[str, ...]
    files: Mapping[str, File]
    env: tuple[tuple[str, str], ...] = ()
    stop: str = "SIGTERM"
    address: str = ""
    inside: str = ""
    aliases: tuple[str, ...] = ()
    published: tuple[tuple[str, int, str], ...] = ()
    capabilities: tuple[str, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    limits: ContainerLimits = ContainerLimits()  # frozen
    once: bool = False
    joins: str = ""
    networks: tuple[str, ...] = ()
    own_processes: bool = False
    docker_socket: str = ""
    binds: tuple[tuple[str, str, str], ...] = ()

    def shape(self) -> str:
        """A digest of all but its files: another one needs another container."""
        return hashlib.sha256(self._text()).hexdigest()[:32]

    def digest(self) -> str:
        """A digest of all of it, files included."""
        hasher = hashlib.sha256(self._text())
        for name, file in sorted(self.files.items()):
            hasher.update(f"\0{name}\0{file.secret}\0{file.link}\0".encode() + hashlib.sha256(file.content).digest())
        return hasher.hexdigest()[:32]

    def file_digests(self) -> dict[str, str]:
        """Digests of its files by name, without links."""
        return {name: file.digest() for name, file in self.files.items() if not file.link}

    def _text(self) -> bytes:
        plain = {name: getattr(self, name) for name in self.__struct_fields__ if name != "files"}
        return json.dumps(plain, sort_keys=True, default=msgspec.to_builtins).encode()


def create(client: DockerClient, spec: ContainerSpec, record: Record, network: str) -> Container:
    """Create the container with its files, and do not start it. Raises EngineError LB421."""
    # A new name each time: the container that it replaces keeps its volume until it is removed.
    volume = f"{spec.name}-{secrets.token_hex(4)}"
    options: dict[str, Any] = {
        "name": spec.name,
        "command": list(spec.argv),
        "labels": record.labels() | labels.owner_labels(),
        "environment": dict(spec.env),
        "working_dir": WORK,
        "stop_signal": spec.stop,
        "user": "0:0" if spec.capabilities or spec.docker_socket else f"{USER}:{USER}",
        "read_only": True,
        "tmpfs": {"/tmp": _RUN_TMPFS},  # noqa: S108  # inside the container
        "cap_drop": ["ALL"],
        "cap_add": list(spec.capabilities),
        "security_opt": ["no-new-privileges"],
        "pids_limit": spec.limits.pids,
        "mem_limit": spec.limits.memory,
        # Not unless-stopped: docker takes any signal, such as that of a reload, for a stop by its user.
        "restart_policy": {"Name": "no" if spec.once else "always"},
        "log_config": {"Type": "json-file", "Config": _LOG},
        "sysctls": dict(spec.sysctls),
    }
    if spec.inside:
        options |= {
            "network_mode": f"container:{spec.joins or spec.inside}",
            "volumes_from": [spec.inside],
        }
        if not spec.own_processes:
            options["pid_mode"] = f"container:{spec.inside}"
        options["volumes"] = {place: {"bind": inside, "mode": mode} for place, inside, mode in spec.binds}
    elif spec.once:
        options |= {
            "network_mode": f"container:{spec.joins}" if spec.joins else network or "none",
            "volumes": [WORK],
        }
    else:
        joined = {"network_mode": f"container:{spec.joins}"} if spec.joins else {"network": network}
        volumes = {volume: {"bind": WORK, "mode": "rw"}}
        if spec.docker_socket:
            joined = {"network_mode": "none"}
            volumes[spec.docker_socket] = {"bind": DOCKER_SOCKET, "mode": "ro"}
        options |= joined | {
            "ports": {f"{port}/{protocol}": (host, port) for host, port, protocol in spec.published},
            "volumes": volumes,
        }
    with docker_errors(f"making the container {spec.name}"):
        if not spec.inside and not spec.once:
            client.volumes.create(volume, labels=record.labels() | labels.owner_labels())
        handle = _create(client, spec, record, options)
    try:
        with docker_errors(f"making the container {spec.name}"):
            if not spec.inside and (spec.address or spec.aliases):
                joined = client.networks.get(network)
                joined.disconnect(handle)
                joined.connect(handle, ipv4_address=spec.address or None, aliases=list(spec.aliases) or None)
            for each in () if spec.once else spec.networks:
                client.networks.get(each).connect(handle)
            if spec.files:
                handle.put_archive(WORK, container_files.archive(spec.files, root=bool(spec.capabilities)))
    except BaseException:
        with suppress(EngineError), docker_errors(f"removing the container {spec.name}"):
            remove(handle)
        raise
    return handle


def _create(client: DockerClient, spec: ContainerSpec, record: Record, options: dict[str, Any]) -> Container:
    """Create the container; remove it when docker created it but failed to answer. Raises docker's errors."""
    from docker.errors import APIError

    try:
        return client.containers.create(spec.image, **options)
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:  # CONFLICT: another container has the name
            with suppress(APIError):
                left = client.containers.get(spec.name)
                if record.labels().items() <= left.labels.items():
                    remove(left)
        raise


def start(handle: Container, spec: ContainerSpec) -> None:
    """Start it. Raises EngineError LB404 (a port is in use), LB422 (its image cannot run the program), LB421."""
    try:
        with docker_errors(f"starting the container {spec.name}"):
            handle.start()
    except EngineError as error:
        text = str(error)
        if spec.published and ("already allocated" in text or "already in use" in text):
            host, port, protocol = next((x for x in spec.published if f"{x[0]}:{x[1]}" in text), spec.published[0])
            message = f"{spec.name} cannot publish {host}:{port}: {_holder(handle, port, protocol)}"
            raise PortTakenError(Diagnostic("LB404", message, hint=_OTHER_PORT), port, protocol) from error
        if spec.published and "cannot assign requested address" in text:
            host, port, protocol = next((x for x in spec.published if f"{x[0]}:{x[1]}" in text), spec.published[0])
            message = f"{spec.name} cannot publish {host}:{port}: this host has no such address"
            hint = "take an address of this host (`ip address` lists them), or 127.0.0.1"
            raise PortTakenError(Diagnostic("LB404", message, hint=hint), port, protocol, "address") from error
        absent = "executable file not found" in text or "no such file or directory" in text
        if absent or OTHER_PROCESSOR in text:
            why = "made for another processor" if OTHER_PROCESSOR in text else f"without {spec.argv[0]}"
            hint = "is it of this engine? `lbgen images` shows where it comes from"
            raise EngineError(Diagnostic("LB422", f"the image {spec.image} is {why}", hint=hint)) from error
        raise


@contextmanager
def temporary(client: DockerClient, spec: ContainerSpec, record: Record, network: str = "") -> Iterator[Container]:
    """Run the container while the block lasts, then remove it, whatever it does. Raises as `create` and `start`."""
    handle = create(client, spec, record, network)
    try:
        start(handle, spec)
        yield handle
    finally:
        with defer_signals(), docker_errors(f"removing the container {spec.name}"):
            remove(handle)


def wait_exit(handle: Container, seconds: float) -> int:
    """The exit status of a container that ends within `seconds`. Raises EngineError LB421."""
    with docker_errors(f"waiting for {handle.name}"):
        return int(handle.wait(timeout=seconds)["StatusCode"])


def _holder(handle: Container, port: int, protocol: str) -> str:
    """Name the container or process that uses a port."""
    with suppress(EngineError), docker_errors("listing containers"):
        for each in handle.client.containers.list(ignore_removed=True):
            for inside, outside in (each.ports or {}).items():
                if any((x["HostPort"], inside.partition("/")[2]) == (str(port), protocol) for x in outside or ()):
                    return f"the container {each.name} has it"
    return f"{ports.owner(port) or 'another process'} has it"


def tail(handle: Container, lines: int = 15) -> str:
    """The last lines of its output, indented."""
    with docker_errors(f"reading the log of {handle.name}"):
        text = handle.logs(tail=lines).decode("utf-8", "replace")
    return "\n".join(f"  {line}" for line in text.splitlines())


def execute(handle: Container, argv: Sequence[str]) -> str:
    """Run a command in it and return its output. Raises EngineError LB403 with the output when it fails, LB421."""
    with docker_errors(f"running {argv[0]} in {handle.name}"):
        code, output = exec_run(handle, argv, workdir=WORK)
    said = output.decode("utf-8", "replace")
    if code:
        raise EngineError(Diagnostic("LB403", f"`{shlex.join(argv)}` in {handle.name}: {said.strip()}"))
    return said


def remove(handle: Container) -> None:
    """Remove it with its volumes, running or not. On a busy host docker may fail at first, or report a removal in
    progress; that is retried for 5 s. Raises docker's APIError."""
    from docker.errors import APIError, NotFound

    end = time.monotonic() + _REMOVED_SECONDS
    while True:
        try:
            handle.remove(force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code not in _NOT_YET or time.monotonic() > end:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def signal(handle: Container, number: str) -> None:
    """Send a signal to its main process. Raises EngineError LB421."""
    with docker_errors(f"sending {number} to {handle.name}"):
        handle.kill(signal=number)
