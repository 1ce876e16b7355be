"""Reads the log files of a stack: lines with their source, and records of requests, once or as they are written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.api import engine_names
from lbgen.runtime.common import state
from lbgen.runtime.common.state import EngineState, StackState

if TYPE_CHECKING:
    Parser = Callable[[str], Mapping[str, object] | None]


_BYTES = 65_536  # read at most


def tail(log: Path, lines: int = 15) -> str:
    """The last `lines` of a log, indented; empty when there are none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


_LOOK_SECONDS = 0.2
_PART = 1 << 20  # bytes read at a time
SUPERVISOR = "lbgen"


class Line(Struct, frozen=True):
    """`source` is an engine's name, with `-agent` for its agent's, or `lbgen` for the supervisor. `record`: the line
    is of the access log, and this is what it says in lbgen's schema (docs/contract.md, 10.log)."""

    source: str
    text: str
    record: Mapping[str, object] | None = None


class RequestFilter(Struct, frozen=True):
    """A filter of requests: of one of `routes` (empty = any), with a status in one of the ranges `statuses`."""

    routes: frozenset[str] = frozenset()
    statuses: tuple[tuple[int, int], ...] = ()

    def matches(self, record: Mapping[str, object]) -> bool:
        """Whether `record` passes the filter."""
        status = record["status"]
        fits = isinstance(status, int) and any(first <= status <= last for first, last in self.statuses)
        return (not self.routes or record["route"] in self.routes) and (not self.statuses or fits)


def access_parser(name: str) -> Parser | None:
    """Return the parser of that engine's access log; None when the engine is not installed."""
    return engine_by_name(name).access_record if name in engine_names() else None


class _Tail(Struct):
    source: str
    path: Path
    parse: Parser | None = None  # where the access log may be
    at: int = 0
    rest: bytes = b""

    def read(self, *, last: bool) -> Iterator[Line]:
        """Return the lines added since the last call; with `last` also an unfinished one."""
        while new := self._part():
            *lines, self.rest = (self.rest + new).split(b"\n")
            yield from map(self._line, lines)
        if last and self.rest:
            yield self._line(self.rest)
            self.rest = b""

    def _part(self) -> bytes:
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.at)
                new = stream.read(_PART)
        except OSError:
            return b""
        self.at += len(new)
        return new

    def _line(self, line: bytes) -> Line:
        text = line.decode("utf-8", "replace").rstrip("\r")
        return Line(self.source, text, self.parse(text) if self.parse is not None else None)


def lines(
    stack: StackState,
    engine: str | None = None,
    *,
    follow: bool = False,
    parser: Callable[[str], Parser | None] = access_parser,
) -> Iterator[Line]:
    """Yield what the engines (or only `engine`) and the supervisor printed, and the requests they logged. With `follow`
    it continues until the stack is down. `parser` returns the parser of an engine's access log."""
    tails = [tail for x in stack.engines if engine in (None, x.name) for tail in _tails(x, parser(x.name))]
    if engine is None:
        tails.append(_Tail(SUPERVISOR, state.folder(stack.name) / state.SUPERVISOR_LOG))
    while True:
        alive = follow and stack.supervisor.alive()
        for each in tails:
            yield from each.read(last=not alive)
        if not alive:
            return
        time.sleep(_LOOK_SECONDS)


def requests(found: Iterable[Line], wanted: RequestFilter, *, sort: bool) -> Iterator[Line]:
    """Yield only the lines of matching requests, in file order, or by time with `sort` (for several engines)."""
    kept = (line for line in found if line.record is not None and wanted.matches(line.record))
    return iter(sorted(kept, key=lambda line: str((line.record or {}).get("time")))) if sort else kept


def _tails(engine: EngineState, parse: Parser | None) -> Iterator[_Tail]:
    own = not engine.access_log
    yield _Tail(engine.name, engine.log, parse if own else None)
    if not own:
        yield _Tail(engine.name, Path(engine.directory) / engine.access_log, parse)
    if engine.agent:
        yield _Tail(f"{engine.name}-agent", Path(engine.directory) / state.AGENT_LOG)
