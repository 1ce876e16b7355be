"""Give a running engine its changed files stage by stage, each when it has taken over the one before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Staged, Taken
from lbgen.engines.api import engine as engine_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.engines.api import ProcessSpec

SECONDS = 10.0  # for an engine to take over a stage
_LOOK_SECONDS = 0.01  # at first; the pause grows


class Exchange(Protocol):
    """The files of a running engine. Its methods raise OSError or EngineError."""

    @property
    def title(self) -> str: ...
    @property
    def engine(self) -> str: ...
    def watched_texts(self) -> Mapping[str, str]:
        """Return the files that it watches, by name."""
        ...

    def put(self, files: Mapping[str, str]) -> None:
        """Rename files into their places."""
        ...

    def ask(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        """Return what the admin port answers, by path; None when it does not."""
        ...

    def mark(self) -> float:
        """Return the end of what the engine has written, for `output`."""
        ...

    def output(self, mark: float) -> str:
        """Return what it wrote after that."""
        ...

    def ensure_alive(self) -> None:
        """EngineError LB403 when it has ended."""
        ...


def staged_engine(name: str) -> Staged | None:
    """Return the engine of that name if it takes over changes in stages, else None."""
    try:
        found = engine_by_name(name)
    except UsageError:  # uninstalled since
        return None
    return found if isinstance(found, Staged) else None


def watched(spec: ProcessSpec, files: Mapping[str, str]) -> dict[str, str]:
    """Return those of `files` that the engine reads again by itself."""
    return {name: text for name, text in files.items() if spec.watches(name)}


def put_in_stages(live: Exchange, after: Mapping[str, str]) -> dict[str, str]:
    """Bring the engine from the files that it watches to `after`; return those that its stages want in the end, which
    are not to be written otherwise. Nothing happens for an engine without stages, or one that does not answer.

    Raises EngineError LB403 when it refuses one, with its reason, or does not take it over in time.
    """
    target = staged_engine(live.engine)
    if target is None:
        return {}
    found: dict[str, str] = {}
    refusals: int | None = None
    for stage in target.stages(live.watched_texts(), after):
        if refusals is None:
            refusals = _wait(live, target, {}).refusals
        mark = live.mark()
        live.put(stage)
        taken = _wait(live, target, stage, refusals)
        if taken.refusals > refusals:
            message = f"{live.title} refuses the change; it said:\n{live.output(mark).rstrip()}"
            raise EngineError(Diagnostic("LB403", message))
        found |= stage
    return found


def _wait(live: Exchange, target: Staged, stage: Mapping[str, str], refusals: int | None = None) -> Taken:
    """Wait until the engine has taken over the stage, or refused more than `refusals` changes. EngineError LB403."""
    end, pause = time.monotonic() + SECONDS, _LOOK_SECONDS
    while True:
        late = time.monotonic() > end
        missing: tuple[str, ...] = ("its admin port does not answer",)
        if (answers := live.ask(target.taken_paths)) is not None:
            taken = target.taken(stage, answers)
            missing = taken.missing
            # First checks may take longer: the change is not refused for that.
            if not stage or (not missing and (taken.settled or late)):
                return taken
            if refusals is not None and taken.refusals > refusals:
                return taken
        live.ensure_alive()
        if late:
            message = f"{live.title} has not taken over the change after {SECONDS:g} s: {', '.join(missing)}"
            raise EngineError(Diagnostic("LB403", message))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
