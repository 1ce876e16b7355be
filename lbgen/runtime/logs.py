"""The log files of a stack -> lines with the name of who wrote them, once or as they come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.runtime.local import state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.runtime.local.state import StackState

_LOOK_SECONDS = 0.2
SUPERVISOR = "lbgen"


@dataclass(frozen=True, slots=True)
class Line:
    """`source` is an engine's name, or `lbgen` for the supervisor."""

    source: str
    text: str


@dataclass(slots=True)
class _Tail:
    source: str
    path: Path
    at: int = 0
    rest: bytes = b""

    def read(self, *, last: bool) -> Iterator[Line]:
        """The lines added since the last time; `last` also gives one that has no end yet."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.at)
                new = stream.read()
        except OSError:
            return
        self.at += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        if last and self.rest:
            lines.append(self.rest)
            self.rest = b""
        for line in lines:
            yield Line(self.source, line.decode("utf-8", "replace").rstrip("\r"))


def lines(stack: StackState, engine: str | None = None, *, follow: bool = False) -> Iterator[Line]:
    """What the engines (or only `engine`) and the supervisor printed. `follow`: on and on until the stack is down."""
    tails = [_Tail(x.name, x.log) for x in stack.engines if engine in (None, x.name)]
    if engine is None:
        tails.append(_Tail(SUPERVISOR, state.folder(stack.name) / state.SUPERVISOR_LOG))
    while True:
        alive = follow and stack.supervisor.alive()
        for each in tails:
            yield from each.read(last=not alive)
        if not alive:
            return
        time.sleep(_LOOK_SECONDS)
