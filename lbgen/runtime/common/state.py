"""Records of running stacks on disk: one folder each, so that any later command finds their processes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lbgen.agent import state_file as agent_state
from lbgen.agent.admin_client import fetch_text
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Counts
from lbgen.plan.model import Listener, Mode
from lbgen.runtime.common.health import EndpointHealth, Member, combine_health, read_counts, status_engine
from lbgen.runtime.common.processes import ProcessId
from lbgen.system_errors import remedy, to_diagnostic

T = TypeVar("T")
_RECORD = "stack.json"
SCHEMA = 1  # of the record, there `format`
_COMMAND_SECONDS = 10
SUPERVISOR_LOG = "supervisor.log"
AGENT_LOG = "agent.log"  # in the engine's folder


class Address(Struct, frozen=True):
    """The address of a listener as seen from this host."""

    listener: str
    mode: str  # l7 or l4
    host: str
    port: int
    scheme: str = "http"  # http, https, tcp or udp

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def scheme(listener: Listener) -> str:
    """Return the URL scheme of the listener: http, https, tcp or udp."""
    return listener.scheme if listener.mode is Mode.L7 else str(listener.protocol)


class EngineState(Struct, frozen=True):
    """One engine of a stack. `ended` says how it died, empty while it runs; `pid` 0 until it was started. `restarts`:
    how often it was started anew after it had died, the last time as `died` says. `access_log` is relative to
    `directory`, "" = its output. `agent`: pid of its `lbgen agent`, 0 without. `admin`: the loopback port where it
    reports the health of `members`, its endpoints; 0 without. `metrics`: the URL at which its agent serves them, "" =
    none. `engine`: the engine's name where `name` is that of a tier's replica, else ""."""

    name: str
    title: str
    version: str  # of the executable
    binary: str
    directory: str
    addresses: tuple[Address, ...] = ()
    pid: int = 0
    started: int = 0
    ended: str = ""
    restarts: int = 0
    died: str = ""
    access_log: str = ""
    agent: int = 0
    leftovers: tuple[str, ...] = ()  # files outside `directory` that go with it
    admin: int = 0
    members: tuple[Member, ...] = ()
    metrics: str = ""
    engine: str = ""

    @property
    def log(self) -> Path:
        return Path(self.directory) / "engine.log"

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.started)

    @property
    def health(self) -> tuple[EndpointHealth, ...]:
        """The health of its endpoints, read now."""
        reporter = status_engine(self.engine or self.name)
        said = (
            fetch_text(self.admin, reporter.status_paths)
            if reporter is not None and self.admin and self.running
            else None
        )
        agent = agent_state.read(Path(self.directory)) if self.agent else {}
        return combine_health(self.title, reporter, self.members, said, agent, self.counts)

    @property
    def counts(self) -> Counts | None:
        """The connections that the kernel counted for it; None where it counts none."""
        return read_counts(self.engine or self.name, partial(_run_beside, self.pid)) if self.running else None

    @property
    def running(self) -> bool:
        return self.pid > 0 and not self.ended and self.process.alive()


class EndpointState(Struct, frozen=True):
    """A stand-in: `name` is the topology field of the endpoint it plays, such as `pools.web.endpoints[0]`."""

    name: str
    pool: str
    host: str
    port: int


class StackState(Struct, frozen=True):
    """A whole stack. `committed` is False until `up` has returned. `pid` and `started` are its supervisor's. `first`
    identifies it among stacks of the same name, also after another supervisor has taken it over. `changes` counts
    reloads."""

    name: str
    digest: str
    pid: int
    started: int
    committed: bool = False
    engines: tuple[EngineState, ...] = ()
    endpoints: tuple[EndpointState, ...] = ()
    first: str = ""
    changes: int = 0

    @property
    def supervisor(self) -> ProcessId:
        return ProcessId(self.pid, self.started)

    @property
    def runtime(self) -> str:
        """The runtime: `local` or `docker`."""
        return "local"

    @property
    def foreign_owner(self) -> str:
        """The other state directory that owns it, in words; "" = this one, as of every stack with a record here."""
        return ""

    @property
    def alive(self) -> bool:
        """Whether its supervisor runs."""
        return self.supervisor.alive()

    def with_engine(self, engine: EngineState) -> StackState:
        """Return this stack with that engine added or replaced."""
        others = {each.name: each for each in self.engines}
        others[engine.name] = engine
        return replace(self, engines=tuple(others.values()))


def _run_beside(pid: int, argv: tuple[str, ...]) -> str:
    """What a command says in the network namespace of a process. Raises OSError, also where it fails."""
    inside = ("nsenter", "--net", f"--target={pid}", *argv)
    done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS)  # noqa: S603
    if done.returncode:
        raise OSError(done.stderr.strip())
    return done.stdout


def root() -> Path:
    """The state directory: `LBGEN_STATE_DIR`, else `$XDG_STATE_HOME/lbgen`, else `~/.local/state/lbgen`; mode 0700.

    Raises EngineError LB408 when it cannot be made, or is somebody else's.
    """
    asked = os.environ.get("LBGEN_STATE_DIR")
    base = os.environ.get("XDG_STATE_HOME")
    if asked:
        path = _absolute(asked)
    else:
        path = (Path(base) if base and Path(base).is_absolute() else Path.home() / ".local/state") / "lbgen"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise EngineError(Diagnostic("LB408", f"{path} belongs to another user", hint="set LBGEN_STATE_DIR"))
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise EngineError(Diagnostic("LB408", f"{path}: {why}", hint="set LBGEN_STATE_DIR")) from None
    return path


@cache
def _absolute(asked: str) -> Path:
    """A relative path begins at the working directory that this process had when it first asked, also after a chdir."""
    return Path(asked).absolute()


def folder(name: str) -> Path:
    """Return the folder of a stack's record and logs."""
    return root() / "stacks" / name


def read(name: str) -> StackState | None:
    """The record of a stack; None when there is none. Raises EngineError LB408 for one that cannot be read."""
    return read_record(folder(name) / _RECORD, SCHEMA, StackState, "remove that folder once nothing of it runs")


def write(state: StackState) -> None:
    """Write the record atomically. Raises EngineError LB408."""
    write_record(folder(state.name) / _RECORD, SCHEMA, state)


def read_record(path: Path, schema: int, kind: type[T], remedy: str) -> T | None:
    """The `kind` in a file of `write_record`; None when there is none. EngineError LB408 with `remedy` for one that
    cannot be read, LB425 when it cannot be opened."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data.pop("format", None)
        if found != schema:
            raise ValueError(f"it has schema {found}, and this lbgen reads {schema}; use the lbgen that wrote it")
        return msgspec.convert(data, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(to_diagnostic(error)) from None
    except (ValueError, AttributeError, msgspec.ValidationError) as error:
        raise EngineError(Diagnostic("LB408", f"{path} cannot be read: {error}", hint=remedy)) from None


def write_record(path: Path, schema: int, value: object) -> None:
    """Write a record as JSON for people, with the number of its schema. Raises EngineError LB408."""
    store(path, json.dumps({"format": schema, **msgspec.to_builtins(value)}, indent=1).encode())


def store(path: Path, content: bytes) -> None:
    """Write a file atomically, with mode 0600 in a folder of mode 0700. Raises EngineError LB408."""
    staged = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        staged.touch(mode=0o600)
        staged.write_bytes(content)
        staged.replace(path)
    except OSError as error:
        with suppress(OSError):
            staged.unlink()
        raise EngineError(Diagnostic("LB408", f"{path}: {error.strerror}", hint=remedy(error))) from None


def names() -> tuple[str, ...]:
    """Return the names of all stacks with a record."""
    return tuple(sorted(x.parent.name for x in (root() / "stacks").glob(f"*/{_RECORD}")))


def forget(state: StackState) -> None:
    """Remove the record, the logs and the engines' folders."""
    for engine in state.engines:
        shutil.rmtree(engine.directory, ignore_errors=True)
        for name in engine.leftovers:
            Path(name).unlink(missing_ok=True)
    shutil.rmtree(folder(state.name), ignore_errors=True)


@contextmanager
def lock(what: str) -> Iterator[None]:
    """Hold the lock `what` against other lbgen processes of this user; the kernel releases it when a process dies."""
    path = root() / f"{what}.lock"
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_at(handle.fileno(), path):
                continue  # the one before us removed it
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
