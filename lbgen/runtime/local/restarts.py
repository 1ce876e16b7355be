"""A running engine and its agent, looked at again and again: what died is started anew, ever later if it goes on so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.records import replace
from lbgen.runtime.common.process_id import ProcessId
from lbgen.runtime.local.child_process import how_ended

if TYPE_CHECKING:
    from lbgen.runtime.common.state import EngineState
    from lbgen.runtime.local.engine_process import EngineProcess

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0
_WELL_SECONDS = 60.0  # of run time that reset the back-off


class Backoff(Struct):
    """Exponential back-off of restarts: 1, 2, 4 ... 30 seconds. Times are `time.monotonic` seconds."""

    begun: float = 0.0
    due: float | None = None  # None = it runs
    _wait: float = _FIRST_SECONDS

    def schedule(self, now: float) -> float:
        """Schedule a restart after a death; returns the seconds until then."""
        if now - self.begun >= _WELL_SECONDS:
            self._wait = _FIRST_SECONDS
        wait, self._wait = self._wait, min(self._wait * 2, _LONGEST_SECONDS)
        self.due = now + wait
        return wait

    def take_due(self, now: float) -> bool:
        """Whether a restart is due; if so, it counts as done."""
        if self.due is None or now < self.due:
            return False
        self.due, self.begun = None, now
        return True


class EngineWatch(Struct):
    """Restarts one engine and its agent. Of a kernel engine without a process only the namespace can end."""

    handle: EngineProcess
    ended: str = ""
    died: str = ""
    restarts: int = 0
    _engine: Backoff = field(default_factory=Backoff)
    _agent: Backoff = field(default_factory=Backoff)

    def check(self, now: float) -> Iterator[str]:
        """Restart what is due; yields a line for each event since the last call."""
        handle, name = self.handle, self.handle.engine
        code = handle.process.poll()
        if self._engine.due is None and not self.ended and code is not None:
            self.ended = self.died = how_ended(code)
            if not handle.spec.argv:
                yield f"{name}: its namespace {self.ended}, and the rules with it; start the stack anew"
            else:
                yield f"{name} (pid {handle.pid}) {self.ended}; starts again in {self._engine.schedule(now):g} s"
        elif self._engine.take_due(now):
            try:
                handle.restart()
            except OSError as error:  # no memory or processes left, for now
                yield f"{name} cannot be started: {error}; tries again in {self._engine.schedule(now):g} s"
            else:
                self.ended = ""
                self.restarts += 1
                yield f"{name} started again as pid {handle.pid}"
        if handle.agent is None:
            return
        code = handle.agent.poll()
        if self._agent.due is None and code is not None:
            how = how_ended(code)
            yield f"{name}: its agent (pid {handle.agent.pid}) {how}; starts again in {self._agent.schedule(now):g} s"
        elif self._agent.take_due(now):
            try:
                handle.restart_agent()
            except OSError as error:
                yield f"{name}: its agent cannot be started: {error}; tries again in {self._agent.schedule(now):g} s"
            else:
                yield f"{name}: its agent started again as pid {handle.agent.pid}"

    def updated(self, entry: EngineState) -> EngineState:
        """`entry` with the present pids and counts."""
        identity = ProcessId.of(self.handle.pid)
        return replace(
            entry,
            pid=self.handle.pid,
            started=identity.started if identity is not None else entry.started,
            ended=self.ended,
            died=self.died,
            restarts=self.restarts,
            agent=self.handle.agent.pid if self.handle.agent is not None else 0,
        )
