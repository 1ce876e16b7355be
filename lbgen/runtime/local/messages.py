"""Messages between commands and the supervisor of a stack, as JSON, and the connections that carry them."""

from __future__ import annotations

import hashlib
import multiprocessing.connection
import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from lbgen.diagnostics import Diagnostic  # read at run time by `decode`, as all that messages consist of
from lbgen.engines.api import Binary, Engine
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.model import Plan  # as above
from lbgen.runtime.common.driver import Progress
from lbgen.runtime.common.saved import DecodeError, decode, encode, from_plain
from lbgen.runtime.common.state import StackState  # as above

_NOT_SERVED = frozenset({"uses", "spans", "use_spans"})  # fields of a plan


class SuppliedEngine(Struct, frozen=True):
    """An engine that is not installed, as data: its name in its module, or that of its class and its fields."""

    module: str
    name: str
    fields: dict[str, Any] | None = None

    @classmethod
    def of(cls, engine: Engine) -> SuppliedEngine:
        kind = type(engine)
        for name, value in vars(sys.modules[kind.__module__]).items():
            if value is engine:
                return cls(kind.__module__, name)
        fields = asdict(engine) if isinstance(engine, Struct) else vars(engine)
        return cls(kind.__module__, kind.__qualname__, fields)

    def make(self) -> Engine:
        found: Any = getattr(import_module(self.module), self.name)
        engine: Engine = found if self.fields is None else msgspec.convert(self.fields, found, dec_hook=from_plain)
        return engine


class EngineChoice(Struct, frozen=True):
    """An engine of the stack with its version and executable. `supplied`: the engine itself if it is not installed, in
    a message `described` instead."""

    name: str
    title: str
    version: str
    binary: Binary
    kernel: bool
    resolvers: tuple[str, ...]  # DNS servers for it
    offset: int = 0  # added to every listener's port
    supplied: Engine | None = None
    described: SuppliedEngine | None = None

    @property
    def engine(self) -> Engine:
        if self.described is not None:
            return self.described.make()
        return self.supplied if self.supplied is not None else engine_by_name(self.name)


class StartRequest(Struct, frozen=True, tag=True):
    """To a new supervisor: bring a stack up. `folder` is the stack's in the state directory."""

    name: str
    folder: str
    plan: Plan
    engines: tuple[EngineChoice, ...]
    accept: tuple[str, ...]
    backends: bool
    seconds: float  # to wait for listeners, and again for routes

    @property
    def programs(self) -> tuple[tuple[str, str, Binary], ...]:
        """Name, version and executable of each engine."""
        return tuple((x.name, x.version, x.binary) for x in self.engines)

    @property
    def digest(self) -> str:
        """A digest of what the stack serves and runs, without positions in the topology file."""
        plan = self.plan
        served = [(name, value) for name, value in asdict(plan).items() if name not in _NOT_SERVED]
        what = (served, self.programs, self.accept, self.backends)
        return hashlib.sha256(repr(what).encode()).hexdigest()

    def as_message(self) -> StartRequest:
        """Itself with `described` for each engine that is `supplied`."""
        engines = (
            x if x.supplied is None else replace(x, supplied=None, described=SuppliedEngine.of(x.supplied))
            for x in self.engines
        )
        return replace(self, engines=tuple(engines))


class ReloadRequest(Struct, frozen=True, tag=True):
    """To the supervisor of a running stack: serve `plan` instead.

    `programs` and `backends` of its `StartRequest` are what the stack must be made of; None = whatever it is, and
    then `accept` comes on top of what was accepted before.
    """

    plan: Plan
    accept: tuple[str, ...]
    seconds: float
    programs: tuple[tuple[str, str, Binary], ...] | None = None
    backends: bool | None = None


class TakeoverRequest(Struct, frozen=True, tag=True):
    """To a new supervisor: take over the stack of that name, whose supervisor has ended. `folder` and `seconds` as in
    `StartRequest` and `ReloadRequest`."""

    name: str
    folder: str
    seconds: float


class Success(Struct, frozen=True, tag=True):
    """From the supervisor: the request is done. `warnings` are LB405 of routes that cannot be verified."""

    state: StackState
    warnings: tuple[Diagnostic, ...]


class Failure(Struct, frozen=True, tag=True):
    """From the supervisor: the request failed, and the previous state is restored. `exit_code`: the kind of error."""

    diagnostics: tuple[Diagnostic, ...]
    exit_code: int


Answer = Progress | Success | Failure


SCHEMA = 1  # of the messages: another one wherever a field is added, or gets another meaning
_SOCKET = "control"


class Connection:
    """One end of a connection. Errors are OSError, and EOFError where the other end closes it."""

    def __init__(self, pipe: multiprocessing.connection.Connection) -> None:
        self._pipe = pipe

    def send(self, message: object) -> None:
        """Send a record or a dataclass, or a tuple of them."""
        self._pipe.send_bytes(b"%d %b" % (SCHEMA, encode(message)))

    def receive(self, kind: Any, seconds: float | None = None) -> Any:  # noqa: ANN401  # a union is no type[T]
        """The next message, a `kind`. Raises DecodeError for one of another schema, TimeoutError after `seconds`."""
        if not self._pipe.poll(seconds):
            raise TimeoutError
        try:
            schema, _, content = self._pipe.recv_bytes().partition(b" ")
        except OSError as error:
            if error.errno is None:  # so it names an end in the middle of a message
                raise EOFError from error
            raise
        if schema != b"%d" % SCHEMA:
            raise DecodeError(f"it has another schema than {SCHEMA}")
        return decode(content, kind)

    def wait_closed(self) -> None:
        """Return once the other end is closed."""
        with suppress(OSError, EOFError):
            while True:
                self._pipe.recv_bytes()

    def close(self) -> None:
        """Close this end."""
        self._pipe.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ControlSocket:
    """The unix socket in a stack's folder through which commands reach its supervisor: the supervisor's side. The
    folder is 0700, so only the user can connect. A socket left by a supervisor that died is replaced."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (folder / _SOCKET).unlink(missing_ok=True)
        with _short(folder) as path:
            self._socket.bind(path)
        self._socket.listen(4)

    def wait(self, seconds: float) -> Connection | None:
        """The next connection; None when there is none within `seconds`."""
        ready, _, _ = select.select([self._socket], [], [], seconds)
        return _connection(self._socket.accept()[0]) if ready else None

    def close(self) -> None:
        """Accept no more connections."""
        self._socket.close()


def connect(folder: Path) -> Connection:
    """A connection to the supervisor of the stack in `folder`. Raises OSError when none listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, _short(folder) as path:
        client.connect(path)
        return _connection(client)


def _connection(sock: socket.socket) -> Connection:
    return Connection(multiprocessing.connection.Connection(sock.detach()))


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short path of the socket: the kernel allows 107 characters."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)
