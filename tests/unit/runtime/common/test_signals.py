"""A signal within a block that must end whole acts at its end, whatever else happens there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from lbgen.runtime.common import processes
from lbgen.runtime.common.processes import defer_signals


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_acts_at_the_end() -> None:
    done = []

    def twice() -> None:
        with defer_signals():
            press()
            with defer_signals():
                press()
            done.append("inner")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert done == ["inner"]
    with pytest.raises(KeyboardInterrupt):
        press()  # as before


def test_an_error_does_not_swallow_it() -> None:
    def failing() -> None:
        with suppress(OSError), defer_signals():
            press()
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        failing()


def test_it_can_be_forgotten() -> None:
    with defer_signals(forget=True):
        press()
        with defer_signals():
            press()


def test_other_threads_are_let_alone() -> None:
    seen = []

    def work() -> None:
        with defer_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda x: x.name)
def test_a_command_ends_with_its_number(number: signal.Signals) -> None:
    code = (
        "import os; from lbgen.runtime.common.processes import raise_signals, Interrupted; raise_signals()\n"
        f"try: os.kill(os.getpid(), {int(number)}); print('here')\n"
        "except Interrupted as stop: raise SystemExit(stop.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (128 + number, b"")


def test_who_did_not_hear_is_reminded(monkeypatch) -> None:
    monkeypatch.setattr(processes, "_HEARD_SECONDS", 0.05)
    sent: list[str] = []
    assert processes.wait_heard(lambda: len(sent) == 2, lambda: sent.append("again"), 5)
    assert len(sent) == 2
    sent.clear()
    assert not processes.wait_heard(lambda: False, lambda: sent.append("again"), 0.4)
    assert 1 <= len(sent) <= 4  # after 0.05 s, 0.15 s, 0.35 s
    sent.clear()
    assert processes.wait_heard(lambda: True, lambda: sent.append("again"), 5)
    assert not sent
