"""The machine is late while something holds this process back, and only then."""

from __future__ import annotations

import time

from tests.support import lateness


def test_a_process_that_is_held_back_is_late(monkeypatch):
    monkeypatch.setattr(lateness, "STEP", 0.001)
    waits = iter([0.2])
    real = time.sleep
    monkeypatch.setattr(lateness.time, "sleep", lambda seconds: real(next(waits, seconds)))
    with lateness.observed_lateness() as found:
        real(0.3)
    assert found.is_late
    assert found.worst > 0.15


def test_it_is_not_without():
    assert not lateness.Lateness().is_late
    assert not lateness.Lateness(lateness.LATE / 2).is_late
