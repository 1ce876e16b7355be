"""Defers SIGINT and SIGTERM while work must not be interrupted, and raises them at its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asks this process to end; `exit_code` is 128 plus its number, as in shells."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Interrupted(number)


def raise_signals() -> None:
    """Make these signals raise an exception in the main thread, so that it can clean up; ignored ones stay ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _raise)


@contextmanager
def defer_signals(*, forget: bool = False) -> Iterator[None]:
    """Deliver signals that arrive inside the block at its end, or with `forget` never, as the caller ends anyway."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _SIGNALS:
            before[number] = signal.getsignal(number)
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and not forget:  # also where the block ends by an error, which somebody may expect
            signal.raise_signal(came[0])
