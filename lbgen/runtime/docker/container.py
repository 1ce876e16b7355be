"""A wanted container -> a made one, with no more rights than it needs, its files in a volume of its own."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shlex
import tarfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.model import ContainerLimits
from lbgen.runtime.common import ports
from lbgen.runtime.docker.bundle import USER, WORK
from lbgen.runtime.docker.client import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.engines.rendered import Rendered
    from lbgen.runtime.docker.labels import Record

OTHER_PROCESSOR = "exec format error"  # as the kernel says it
_OTHER_PORT = "stop what listens there, or change the listener's port"
_KEY, _PLAIN = 0o400, 0o444
_LOG = {"max-size": "20m", "max-file": "3"}
_NOT_YET = frozenset({HTTPStatus.CONFLICT, HTTPStatus.INTERNAL_SERVER_ERROR})
_REMOVED_SECONDS = 5.0
_AGAIN_SECONDS = 0.2
_RUN_TMPFS = "rw,noexec,nosuid,nodev,mode=1777,size=64m"


class PortTakenError(EngineError):
    """LB404: somebody else has `port`, which was to be published for `protocol`."""

    def __init__(self, diagnostic: Diagnostic, port: int, protocol: str) -> None:
        super().__init__(diagnostic)
        self.port, self.protocol = port, protocol


@dataclass(frozen=True, slots=True)
class File:
    """A file for the container's folder, or a link to a path in it; a secret is readable by its user alone."""

    content: bytes = field(default=b"", repr=False)
    secret: bool = False
    link: str = ""

    def digest(self) -> str:
        """Changes with its content."""
        return hashlib.sha256(self.content).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A container as it should be. `files` go to WORK, which alone (and /tmp) can be written. `address` is its own in
    the stack's network; `joins` names a container whose network it shares instead, `inside` one whose processes and
    files it shares, and its network unless it `joins` another. `networks` are joined beside the stack's own.
    `published` are (host address, port, protocol); the port is the same inside. `capabilities` are kept of all that are
    dropped, and need root inside. With `once` it runs to its end, in no network unless it is given one."""

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
    limits: ContainerLimits = ContainerLimits()  # noqa: RUF009  # frozen
    once: bool = False
    joins: str = ""
    networks: tuple[str, ...] = ()

    def shape(self) -> str:
        """Changes when another container would have to be made."""
        return hashlib.sha256(self._text()).hexdigest()[:32]

    def digest(self) -> str:
        """Changes with its files as well."""
        made = hashlib.sha256(self._text())
        for name, file in sorted(self.files.items()):
            made.update(f"\0{name}\0{file.secret}\0{file.link}\0".encode() + hashlib.sha256(file.content).digest())
        return made.hexdigest()[:32]

    def digests(self) -> dict[str, str]:
        """Of its files, by name; links are none."""
        return {name: file.digest() for name, file in self.files.items() if not file.link}

    def _text(self) -> bytes:
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "files"}
        return json.dumps(plain, sort_keys=True, default=asdict).encode()


def rendered_files(rendered: Rendered) -> dict[str, File]:
    """The files of an engine, and the topology's own beside them. EngineError LB424 for one of those."""
    files = {name: File(text.encode()) for name, text in rendered.items()}
    for copy in rendered.copies:
        if copy.source is not None:
            files[copy.path] = File(copy.content(), copy.secret)
    return files


def create(client: DockerClient, wanted: Wanted, record: Record, network: str) -> Container:
    """Make the container and put its files in place; it is not started. Raises EngineError LB421."""
    # Another name each time: the container that it replaces keeps its own until the end.
    volume = f"{wanted.name}-{secrets.token_hex(4)}"
    options: dict[str, Any] = {
        "name": wanted.name,
        "command": list(wanted.argv),
        "labels": record.labels(),
        "environment": dict(wanted.env),
        "working_dir": WORK,
        "stop_signal": wanted.stop,
        "user": "0:0" if wanted.capabilities else f"{USER}:{USER}",
        "read_only": True,
        "tmpfs": {"/tmp": _RUN_TMPFS},  # noqa: S108  # inside the container
        "cap_drop": ["ALL"],
        "cap_add": list(wanted.capabilities),
        "security_opt": ["no-new-privileges"],
        "pids_limit": wanted.limits.pids,
        "mem_limit": wanted.limits.memory,
        "restart_policy": {"Name": "no" if wanted.once else "unless-stopped"},
        "log_config": {"Type": "json-file", "Config": _LOG},
        "sysctls": dict(wanted.sysctls),
    }
    if wanted.inside:
        options |= {
            "network_mode": f"container:{wanted.joins or wanted.inside}",
            "pid_mode": f"container:{wanted.inside}",
            "volumes_from": [wanted.inside],
        }
    elif wanted.once:
        options |= {
            "network_mode": f"container:{wanted.joins}" if wanted.joins else network or "none",
            "volumes": [WORK],
        }
    else:
        joined = {"network_mode": f"container:{wanted.joins}"} if wanted.joins else {"network": network}
        options |= joined | {
            "ports": {f"{port}/{protocol}": (host, port) for host, port, protocol in wanted.published},
            "volumes": {volume: {"bind": WORK, "mode": "rw"}},
        }
    with told(f"making the container {wanted.name}"):
        if not wanted.inside and not wanted.once:
            client.volumes.create(volume, labels=record.labels())
        made = _created(client, wanted, record, options)
    try:
        with told(f"making the container {wanted.name}"):
            if not wanted.inside and (wanted.address or wanted.aliases):
                joined = client.networks.get(network)
                joined.disconnect(made)
                joined.connect(made, ipv4_address=wanted.address or None, aliases=list(wanted.aliases) or None)
            for each in () if wanted.once else wanted.networks:
                client.networks.get(each).connect(made)
            if wanted.files:
                made.put_archive(WORK, archive(wanted.files, root=bool(wanted.capabilities)))
    except BaseException:
        with suppress(EngineError), told(f"removing the container {wanted.name}"):
            remove(made)
        raise
    return made


def _created(client: DockerClient, wanted: Wanted, record: Record, options: dict[str, Any]) -> Container:
    """Where docker makes the container and then cannot tell of it, it is removed again. Raises docker's errors."""
    from docker.errors import APIError

    try:
        return client.containers.create(wanted.image, **options)
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:  # then the name is that of another one
            with suppress(APIError):
                left = client.containers.get(wanted.name)
                if record.labels().items() <= left.labels.items():
                    remove(left)
        raise


def start(made: Container, wanted: Wanted) -> None:
    """Start it. Raises EngineError LB404 when a port is taken, LB422 when its image is none of its program, LB421."""
    try:
        with told(f"starting the container {wanted.name}"):
            made.start()
    except EngineError as error:
        text = str(error)
        if wanted.published and ("already allocated" in text or "already in use" in text):
            host, port, protocol = next((x for x in wanted.published if f"{x[0]}:{x[1]}" in text), wanted.published[0])
            message = f"{wanted.name} cannot publish {host}:{port}: {_holder(made, port, protocol)}"
            raise PortTakenError(Diagnostic("LB404", message, hint=_OTHER_PORT), port, protocol) from error
        absent = "executable file not found" in text or "no such file or directory" in text
        if absent or OTHER_PROCESSOR in text:
            why = "made for another processor" if OTHER_PROCESSOR in text else f"without {wanted.argv[0]}"
            hint = "is it of this engine? `lbgen images` shows where it comes from"
            raise EngineError(Diagnostic("LB422", f"the image {wanted.image} is {why}", hint=hint)) from error
        raise


def _holder(made: Container, port: int, protocol: str) -> str:
    """Who has a port that is to be published."""
    with suppress(EngineError), told("listing containers"):
        for each in made.client.containers.list(ignore_removed=True):
            for inside, outside in (each.ports or {}).items():
                if any((x["HostPort"], inside.partition("/")[2]) == (str(port), protocol) for x in outside or ()):
                    return f"the container {each.name} has it"
    return f"{ports.owner(port) or 'another process'} has it"


def tail(made: Container, lines: int = 15) -> str:
    """The last lines of what it printed, indented."""
    with told(f"reading the log of {made.name}"):
        text = made.logs(tail=lines).decode("utf-8", "replace")
    return "\n".join(f"  {line}" for line in text.splitlines())


def archive(files: Mapping[str, File], *, root: bool, folders: Iterable[str] = ()) -> bytes:
    """A tar archive of `files` and `folders`, which belong to the container's user."""
    owner = 0 if root else USER
    buffer = io.BytesIO()
    # "." is the container's folder itself
    every = {str(parent) for name in files for parent in PurePosixPath(name).parents} | set(folders)
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for folder in sorted(every):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.uid, entry.gid = (
                tarfile.DIRTYPE,
                0o755 if folder == "." else 0o700,
                owner,
                owner,
            )
            made.addfile(entry)
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.uid, entry.gid = len(file.content), owner, owner
            entry.mode = _KEY if file.secret else _PLAIN
            if file.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            made.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()


def read(made: Container, name: str) -> bytes | None:
    """A file of its folder; None when there is none. Raises EngineError LB421."""
    from docker.errors import NotFound

    with told(f"reading {name} of {made.name}"):
        try:
            parts, _ = made.get_archive(f"{WORK}/{name}")
        except NotFound:
            return None
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
            content = archive.extractfile(archive.getmembers()[0])
            return content.read() if content is not None else None


def written(made: Container, name: str) -> float:
    """When a file of its folder was written, in seconds of the epoch. Raises EngineError LB421."""
    with told(f"reading {name} of {made.name}"):
        parts, _ = made.get_archive(f"{WORK}/{name}")
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
            return float(archive.getmembers()[0].mtime)


def put(made: Container, files: Mapping[str, File], *, root: bool, folders: Iterable[str] = ()) -> None:
    """Put files (and folders) into its folder, whether it runs or not. Raises EngineError LB421."""
    with told(f"putting files into {made.name}"):
        made.put_archive(WORK, archive(files, root=root, folders=folders))


def execute(made: Container, argv: Sequence[str]) -> str:
    """What a command in it prints. Raises EngineError LB403 with that when it fails, LB421."""
    with told(f"running {argv[0]} in {made.name}"):
        done = made.exec_run(list(argv), workdir=WORK)
    said = str(done.output.decode("utf-8", "replace"))
    if done.exit_code:
        raise EngineError(Diagnostic("LB403", f"`{shlex.join(argv)}` in {made.name}: {said.strip()}"))
    return said


def remove(made: Container) -> None:
    """Remove it with its volumes, whatever it does. On a busy host docker fails at that, or is at it already, and has
    done it a moment later. Raises docker's APIError when it has not."""
    from docker.errors import APIError, NotFound

    end = time.monotonic() + _REMOVED_SECONDS
    while True:
        try:
            made.remove(force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code not in _NOT_YET or time.monotonic() > end:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def signal(made: Container, number: str) -> None:
    """Send a signal to its first process. Raises EngineError LB421."""
    with told(f"sending {number} to {made.name}"):
        made.kill(signal=number)
