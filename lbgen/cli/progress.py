"""Progress of long commands: a line for each completed step, and the current one at least every second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.cli.output import Verbosity, verbosity

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from lbgen.api import Progress

_SECONDS = 1.0


@contextmanager
def steps(out: Console, doing: str) -> Iterator[Steps]:
    """Print completed steps and the current one, initially `doing`, on `out`, which may be quiet."""
    with out.status(doing) as status:
        shown = Steps(status, doing)
        ended = threading.Event()
        clock = threading.Thread(target=shown.tick, args=(ended,), name="progress", daemon=True)
        clock.start()
        try:
            yield shown
        finally:
            ended.set()
            clock.join()


class Steps:
    """Prints each step that it is called with. On a terminal one line shows the current step; a file or a pipe gets a
    line for it whenever no other line was printed for a second."""

    def __init__(self, status: Status, doing: str, now: Callable[[], float] = time.monotonic) -> None:
        self._status = status
        self._doing = doing
        self._now = now
        self._since = self._said = self._begun = now()
        self._timed = verbosity() is Verbosity.VERBOSE

    def __call__(self, step: Progress) -> None:
        from lbgen.api import REPORTED_AT_START, Step

        following = {
            Step.POOLS: "starting stand-ins",
            Step.BACKENDS: "rendering configurations",
            Step.STARTED: "waiting until it listens",
            Step.LISTENING: "requesting its routes",
        }
        who = f"{step.engine}: " if step.engine else ""
        detail = f" {step.detail}" if step.detail else ""
        if step.step in REPORTED_AT_START:
            self._go_on(f"{who}{step.step}{detail}")
        elif step.done < step.total:
            self._go_on(f"{who}routes answer {step.done}/{step.total}")
        else:
            count = f" {step.done}/{step.total}" if step.total else ""
            detail = f" ({step.detail})" if step.detail else ""
            self._print(f"{who}{step.step}{count}{detail}")
            self._go_on(f"{who}{following.get(step.step, 'continuing')}")

    def tick(self, ended: threading.Event) -> None:
        """Show the current step every second until `ended` is set."""
        while not ended.wait(_SECONDS / 4):
            self.refresh()

    def refresh(self) -> None:
        """Show the current step if it is time to."""
        now = self._now()
        doing = f"{self._doing}, {now - self._since:.0f} s" if now - self._since >= _SECONDS else self._doing
        if self._status.console.is_terminal:
            self._status.update(doing)
        elif now - self._said >= _SECONDS:
            self._print(doing)

    def _go_on(self, doing: str) -> None:
        if doing.rstrip("/0123456789") != self._doing.rstrip("/0123456789"):
            self._since = self._now()
        self._doing = doing
        if self._status.console.is_terminal:
            self._status.update(doing)

    def _print(self, line: str) -> None:
        self._said = self._now()
        if self._timed:
            line = f"{self._said - self._begun:7.2f} s  {line}"
        self._status.console.print(line, style="dim", markup=False)
