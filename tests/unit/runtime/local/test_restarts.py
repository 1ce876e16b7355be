"""When what died is started again, and what is told about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from lbgen.runtime.local.supervisor import Backoff, EngineWatch


def test_each_death_soon_after_the_last_waits_longer():
    backoff, now, waits = Backoff(), 0.0, []
    for _ in range(7):
        waits.append(backoff.schedule(now))
        assert not backoff.take_due(now + waits[-1] - 0.01)
        now += waits[-1]
        assert backoff.take_due(now)
        assert not backoff.take_due(now)
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.schedule(now + 59) == 30
    assert backoff.take_due(now + 89)
    assert backoff.schedule(now + 89 + 60) == 1


@dataclass
class Process:
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


@dataclass
class Handle:
    """As much of a handle as is looked at; `failures` restarts fail first."""

    kernel: bool = False
    failures: int = 0
    engine: str = "some"
    process: Process = field(default_factory=lambda: Process(4_000_001))
    agent: Process | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def spec(self) -> SimpleNamespace:
        return SimpleNamespace(kernel=self.kernel, argv=() if self.kernel else ("some",))

    def restart(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(11, "Resource temporarily unavailable")
        self.process = Process(self.pid + 1)

    def restart_agent(self) -> None:
        self.agent = Process(4_100_002)


def look(watch: EngineWatch, now: float) -> list[str]:
    return list(watch.check(now))


def test_an_engine_is_started_again_even_when_that_fails_at_first():
    watch = EngineWatch(Handle(failures=1))
    assert look(watch, 0) == []
    watch.handle.process.returncode = -9
    assert look(watch, 1) == ["some (pid 4000001) ended by SIGKILL; starts again in 1 s"]
    assert (watch.ended, watch.restarts) == ("ended by SIGKILL", 0)
    assert look(watch, 1.5) == []
    (failed,) = look(watch, 2)
    assert "cannot be started: [Errno 11] Resource temporarily unavailable; tries again in 2 s" in failed
    assert watch.ended == "ended by SIGKILL"
    assert look(watch, 4) == ["some started again as pid 4000002"]
    assert (watch.ended, watch.died, watch.restarts) == ("", "ended by SIGKILL", 1)
    assert look(watch, 5) == []


def test_a_kernel_engine_is_gone_for_good():
    watch = EngineWatch(Handle(kernel=True, process=Process(1, 3)))
    (told,) = look(watch, 0)
    assert told == "some: its namespace ended with exit status 3, and the rules with it; start the stack anew"
    assert look(watch, 100) == []
    assert watch.ended


def test_an_agent_is_started_again():
    watch = EngineWatch(Handle(agent=Process(4_100_001, 1)))
    assert look(watch, 0) == ["some: its agent (pid 4100001) ended with exit status 1; starts again in 1 s"]
    assert look(watch, 1) == ["some: its agent started again as pid 4100002"]
    assert look(watch, 2) == []
    assert watch.restarts == 0
