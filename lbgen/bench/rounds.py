"""Rounds of load in turn, A B C, A B C: closed loops first, then constant rates below what those reached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lbgen.bench.load import BenchProgress, Generators, LoadShape
from lbgen.bench.report import DIRECT, Sample
from lbgen.runtime.common.processes import group_members

if TYPE_CHECKING:
    from lbgen.bench.subjects import Subject

LADDER = (0.1, 0.25, 0.5)  # of what the fastest engine answers in the closed loop
MOST_OF_OWN = 0.9  # of what an engine answers itself; above it the queue only grows
WARM_UP_SECONDS = 1
IDLE_SECONDS = 2


Samples = list[tuple[str, LoadShape, Sample]]


class Measurement(Struct):
    """How to measure: `rounds` of `seconds` each. `rates`: requests per second; None: `ladder`, shares of the rate of
    the fastest engine in the closed loop with keep-alive. `partial`: rounds that need not be measured again."""

    subjects: Sequence[Subject]
    generators: Generators
    closed: Sequence[LoadShape]
    seconds: int
    rounds: int
    rates: tuple[int, ...] | None
    ladder: tuple[float, ...]
    progress: Callable[[BenchProgress], None]
    partial: PartialResults | None = None
    idle: float = 0.0  # seconds of interrupts per second before the load
    done: int = 0
    total: int = 0

    def run(self) -> Samples:
        """All rounds, after a second of warm-up each. Raises EngineError LB430, LB403."""
        rungs = len(self.ladder if self.rates is None else self.rates)
        closed = [(shape, self._subjects_of(shape)) for shape in self.closed]
        self.total = self.rounds * (sum(len(x) for _, x in closed) + rungs * len(self.subjects))
        for number, subject in enumerate(self.subjects):
            left = (len(self.subjects) - number) * WARM_UP_SECONDS + self.total * self.seconds
            self.progress(BenchProgress(f"warming up {subject.name}", 0, self.total, left))
            run_round(self.generators, subject, self.closed[0], WARM_UP_SECONDS)
        if any(each.kernel for each in self.subjects):
            before = softirq_seconds()
            time.sleep(IDLE_SECONDS)
            self.idle = (softirq_seconds() - before) / IDLE_SECONDS
        samples = self._rounds(closed, "closed loop")
        ladder = self._ladder(samples)
        self.total = self.done + self.rounds * sum(len(subjects) for _, subjects in ladder)
        samples += self._rounds(ladder, "constant rate")
        self.progress(BenchProgress("done", self.total, self.total))
        return samples

    def _subjects_of(self, shape: LoadShape) -> Sequence[Subject]:
        """The endpoint does not speak HTTP/2."""
        return [each for each in self.subjects if not shape.streams or each.process is not None]

    def _ladder(self, closed: Samples) -> list[tuple[LoadShape, Sequence[Subject]]]:
        """Each rate with those that can answer it; rates that were asked for with all."""
        most = max(each.connections for each in self.closed if not each.streams)
        if self.rates is not None:
            return [(LoadShape(most, rate), self.subjects) for rate in self.rates]
        rounds: dict[tuple[str, LoadShape], list[float]] = {}
        for name, shape, sample in closed:
            if shape.keep_alive and not shape.streams:
                rounds.setdefault((name, shape), []).append(sample.load.per_second)
        reached: dict[str, float] = {}
        for (name, _), found in rounds.items():
            reached[name] = max(statistics.median(found), reached.get(name, 0.0))
        fastest = max(rate for name, rate in reached.items() if name != DIRECT)
        rates = sorted({max(1, round(share * fastest)) for share in self.ladder})
        return [
            (
                LoadShape(most, rate),
                [x for x in self.subjects if x.name == DIRECT or rate <= MOST_OF_OWN * reached[x.name]],
            )
            for rate in rates
        ]

    def _rounds(self, plan: Sequence[tuple[LoadShape, Sequence[Subject]]], what: str) -> Samples:
        samples: Samples = []
        for number in range(1, self.rounds + 1):
            for shape, subjects in plan:
                for subject in subjects:
                    left = (self.total - self.done) * self.seconds
                    step = f"round {number} of {self.rounds}, {what}: {subject.name}, {shape.title}"
                    self.progress(BenchProgress(step, self.done, self.total, left))
                    samples.append((subject.name, shape, self._round(number, subject, shape)))
                    self.done += 1
        return samples

    def _round(self, number: int, subject: Subject, shape: LoadShape) -> Sample:
        """One round, or what is known of it."""
        key = (number, shape, subject.name)
        if self.partial is not None and (known := self.partial.known.get(key)) is not None:
            return known
        sample = run_round(self.generators, subject, shape, self.seconds, self.idle)
        if self.partial is not None:
            self.partial.add(key, sample)
        return sample


def run_round(generators: Generators, subject: Subject, shape: LoadShape, seconds: int, idle: float = 0.0) -> Sample:
    """One round of load. `idle`: seconds of interrupts per second without load. Raises EngineError LB430, and LB403
    when the engine ends meanwhile."""
    leaders, peak = subject.leaders(), 0.0

    def look() -> None:
        nonlocal peak
        peak = max(peak, group_memory(leaders))

    before, interrupts, start = group_cpu(leaders), softirq_seconds(), time.monotonic()
    place = (subject.address, subject.port)
    load = generators.run(shape, subject.target, place, seconds, look if leaders else _nothing)
    used = group_cpu(leaders) - before
    softirq = softirq_seconds() - interrupts - idle * (time.monotonic() - start)
    if subject.process is None:
        return Sample(load, None, None, softirq)
    subject.process.ensure_alive()
    return Sample(load, None, None, softirq) if subject.kernel else Sample(load, used, peak)


def run_together(
    generators: Generators, loads: Mapping[str, tuple[Subject, LoadShape]], seconds: int
) -> dict[str, Sample]:
    """One round of load for each of these, all at the same time, each from a generator of its own. Raises as
    `run_round`."""
    with ThreadPoolExecutor(len(loads)) as pool:
        begun = {name: pool.submit(run_round, generators, *load, seconds) for name, load in loads.items()}
        return {name: each.result() for name, each in begun.items()}


def _nothing() -> None:
    """The endpoint is not looked at."""


SUFFIX = ".partial"

RoundKey = tuple[int, LoadShape, str]  # number of the round, shape, subject


class PartialResults:
    """Those of `file`, if they are of the same `settings` (anything that msgspec can encode); else none."""

    def __init__(self, file: Path, settings: object) -> None:
        text = json.dumps(msgspec.to_builtins(settings), sort_keys=True)
        self.digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        self.file = file
        self.known: dict[RoundKey, Sample] = {}
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        if lines and lines[0] == self.digest:
            self.known = dict(_read(lines[1:]))
        # What follows a line that was cut off would be lost with it.
        file.write_text("".join([f"{self.digest}\n", *(_line(*each) for each in self.known.items())]), "utf-8")

    def add(self, key: RoundKey, sample: Sample) -> None:
        """Keep a round. Raises OSError."""
        self.known[key] = sample
        with self.file.open("a", encoding="utf-8") as out:
            out.write(_line(key, sample))

    def remove(self) -> None:
        """The benchmark is finished."""
        self.file.unlink(missing_ok=True)


def _line(key: RoundKey, sample: Sample) -> str:
    return msgspec.json.encode((*key, sample)).decode() + "\n"


def _read(lines: Sequence[str]) -> Iterator[tuple[RoundKey, Sample]]:
    for line in lines:
        with suppress(msgspec.DecodeError):  # it was cut off
            number, shape, subject, sample = msgspec.json.decode(line, type=tuple[int, LoadShape, str, Sample])
            yield (number, shape, subject), sample


def group_cpu(leaders: Iterable[int]) -> float:
    """CPU seconds (user and system) of all processes of these groups until now."""
    return sum(_cpu_seconds(member.pid) for leader in leaders for member in group_members(leader))


def softirq_seconds() -> float:
    """Seconds that all cores together have spent in interrupts until now, where the kernel forwards packets; 0 where it
    does not say. It counts in ticks of a hundredth of a second."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=8)
    except OSError:
        return 0.0
    return (int(words[6]) + int(words[7])) / os.sysconf("SC_CLK_TCK")


def group_memory(leaders: Iterable[int]) -> float:
    """MiB of all processes of these groups; what they share counts once (PSS)."""
    return sum(process_memory(member.pid, "Pss") for leader in leaders for member in group_members(leader))


def _cpu_seconds(pid: int) -> float:
    """The kernel's CPU clock of a process: utime + stime of all its threads, in nanoseconds instead of ticks; 0 once it
    has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def process_memory(pid: int, kind: str) -> float:
    """MiB of a process: Rss, or Pss; 0 where it may not be read, or has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(rf"^{kind}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0
