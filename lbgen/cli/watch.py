"""Runs a command again whenever a file that it read changes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection
from pathlib import Path

import click

from lbgen.cli.output import print_findings, say
from lbgen.diagnostics import LbgenError
from lbgen.spec.source import record_reads

_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 0.3  # without a further change: an editor writes in several steps
Stamps = dict[Path, tuple[int, int, int] | None]


def watch(run: Callable[[], object], what: str, also: Collection[Path] = ()) -> None:
    """Call `run` now, and again after each change of a file that it read, or of `also`; until Ctrl-C, which leaves as
    KeyboardInterrupt. Findings are printed and end nothing. `what` names the subject."""
    while True:
        with record_reads() as seen:
            seen |= {path.absolute() for path in also}
            before = _stamps(also)
            try:
                run()
            except LbgenError as error:
                print_findings(error.diagnostics)
            except click.exceptions.Exit:
                pass  # what it found is printed
        gc.collect()  # main() has disabled the collector
        before = {path: before.get(path, stamp) for path, stamp in _stamps(seen).items()}
        say(f"watching {len(seen)} files of {what}; Ctrl-C ends")
        changed = _wait_for_change(before)
        names = ", ".join(sorted(path.name for path in changed))
        say(f"{time.strftime('%H:%M:%S')} {names} changed")


def _wait_for_change(before: Stamps) -> list[Path]:
    """Return the paths that differ from `before`, once no further change comes."""
    while (now := _stamps(before)) == before:
        time.sleep(_LOOK_SECONDS)
    since = time.monotonic()
    while time.monotonic() - since < _SETTLE_SECONDS:
        time.sleep(_LOOK_SECONDS / 4)
        last, now = now, _stamps(before)
        if now != last:
            since = time.monotonic()
    return [path for path in before if now[path] != before[path]]


def _stamps(paths: Collection[Path]) -> Stamps:
    """Time, size and identity of each file; None where there is none."""
    found: Stamps = {}
    for path in paths:
        try:
            about = path.stat()
        except OSError:
            found[path] = None
        else:
            found[path] = (about.st_mtime_ns, about.st_size, about.st_ino)
    return found
