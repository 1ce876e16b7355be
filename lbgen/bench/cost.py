"""What each feature of a topology costs on each engine: it is measured beside the same topology without the feature.

All variants of an engine run side by side, on cores that nothing else of the benchmark uses. CPU per request is that of
closed loops, in pairs: the whole topology and a variant are loaded at the same time, so that whatever else the machine
does slows both of them. Latency is that of a constant rate, at which all variants are loaded at the same time.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.bench.added import Added
from lbgen.bench.gate import verified_engines
from lbgen.bench.generators import Generators
from lbgen.bench.load import LoadShape
from lbgen.bench.report import MeasuredEngine, Sample, Spread, UnmeasuredEngine, exit_code_of
from lbgen.bench.rounds import WARM_UP_SECONDS, BenchProgress, run_round, run_together
from lbgen.bench.run import REQUESTS
from lbgen.bench.subjects import Subject, Unit, running
from lbgen.bench.target import LoadTarget, choose_target
from lbgen.bench.without import Variant, variants
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common.driver import no_progress

if TYPE_CHECKING:
    from lbgen.bench.json_types import CostRecord
    from lbgen.conformance.verify.messages import JobProgress
    from lbgen.engines.api import Engine
    from lbgen.plan.request import Request
    from lbgen.runtime.local.messages import EngineChoice
    from lbgen.spec.load import Topology

WHOLE = "whole"
SECONDS, ROUNDS = 1, 5
CONNECTIONS = 25  # of each of a pair
SHARE = 0.25  # of what the engine answers in a closed loop, which all variants share: no queue adds to the latency
FEW = 5  # connections at a constant rate


@dataclass(frozen=True, slots=True)
class Price:
    """What a feature costs on an engine: CPU microseconds per request, and milliseconds of p50."""

    feature: str
    cpu_us: Added
    p50_ms: Added


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """An engine: the whole topology's own figures, and the price of each feature; p50 is that of each variant at `rate`
    requests per second. `failed`: features without which it did not run, with the reason."""

    engine: MeasuredEngine
    rate: int
    cpu_us: Spread
    p50_ms: Spread
    prices: tuple[Price, ...]
    failed: dict[str, str]


@dataclass(frozen=True, slots=True)
class CostReport:
    """What `lbgen bench --cost` measured."""

    name: str
    cores: int
    target: LoadTarget
    seconds: int
    rounds: int
    engines: tuple[EngineCosts, ...]
    not_measured: tuple[UnmeasuredEngine, ...]

    @property
    def exit_code(self) -> int:
        """As that of a benchmark."""
        return exit_code_of(self.not_measured)

    def as_dict(self) -> CostRecord:
        """The JSON record."""
        return {
            "name": self.name,
            "cores": self.cores,
            "route": self.target.route,
            "target": self.target.target,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "costs": [
                {
                    "engine": each.engine.engine,
                    "version": each.engine.version,
                    "rate": each.rate,
                    "cpu_us_per_request": each.cpu_us.as_dict(),
                    "p50_ms": each.p50_ms.as_dict(),
                    "features": [
                        {
                            "feature": price.feature,
                            "cpu_us_per_request": price.cpu_us.spread.as_dict(),
                            "cpu_interval": price.cpu_us.interval,
                            "cpu_measurable": price.cpu_us.measurable,
                            "p50_ms": price.p50_ms.spread.as_dict(),
                            "p50_interval": price.p50_ms.interval,
                            "p50_measurable": price.p50_ms.measurable,
                        }
                        for price in each.prices
                    ],
                    "failed": each.failed,
                }
                for each in self.engines
            ],
            "not_measured": [each.as_dict() for each in self.not_measured],
        }


def cost(
    topology: Topology,
    engines: Sequence[str | Engine] | None = None,
    *,
    request: Request | None = None,
    listener: str | None = None,
    seconds: int = SECONDS,
    rounds: int = ROUNDS,
    accept: tuple[str, ...] = (),
    requests: int = REQUESTS,
    progress: Callable[[BenchProgress], None] = no_progress,
) -> CostReport:
    """Verify `engines` on `topology`, then measure it on each beside itself without one feature at a time.

    `request` and `listener` are as those of `lbgen.bench`; features that the request does not meet are not measured.
    Variants are not verified: they must answer the request with 200. Raises what `lbgen.bench` raises.
    """
    if seconds < 1 or rounds < 1:
        raise UsageError(Diagnostic("LB431", "seconds and rounds of a benchmark are at least 1"))
    if topology.model.tiers is not None:
        raise UsageError(Diagnostic("LB431", "a topology of tiers cannot be measured", field="tiers"))
    generators, plan = Generators.find(), resolve(topology)
    target = choose_target(plan, request, listener)
    progress(BenchProgress("verifying"))

    def verifying(event: JobProgress) -> None:
        progress(BenchProgress(f"verifying {event.engine}: {event.what} {event.done}/{event.total}"))

    good, left = verified_engines(plan, engines, accept, requests, verifying)
    every = (Variant(WHOLE, plan, target), *variants(topology, plan, target))
    each_round = len(every)  # a pair for each feature, and all of them at a constant rate
    total = rounds * each_round * len(good)
    found: list[EngineCosts] = []
    failed: list[UnmeasuredEngine] = []
    for number, (choice, engine) in enumerate(good):

        def tell(done: int, what: str, number: int = number, name: str = choice.name) -> None:
            over = number * rounds * each_round + done
            progress(BenchProgress(f"{name}: {what}", over, total, (total - over) * seconds))

        measured = _measure(choice, engine, every, generators, (rounds, seconds), accept, tell)
        if isinstance(measured, UnmeasuredEngine):
            failed.append(measured)
        else:
            found.append(measured)
    progress(BenchProgress("done", total, total))
    return CostReport(plan.name, os.cpu_count() or 1, target, seconds, rounds, tuple(found), (*left, *failed))


def _measure(
    choice: EngineChoice,
    engine: MeasuredEngine,
    every: Sequence[Variant],
    generators: Generators,
    size: tuple[int, int],
    accept: tuple[str, ...],
    tell: Callable[[int, str], None],
) -> EngineCosts | UnmeasuredEngine:
    rounds, seconds = size
    tell(0, "starting")
    units = [Unit(each.feature, choice, each.plan, each.target) for each in every]
    with running(units, accept, separate=True) as (started, failed):
        subjects = {each.name: each for each in started if each.process is not None}
        if WHOLE in failed:
            return UnmeasuredEngine.failed(choice.name, failed[WHOLE])
        rate = _warm_up(subjects, generators, tell)
        others = [name for name in subjects if name != WHOLE]
        pairs: dict[str, list[tuple[Sample, Sample]]] = {name: [] for name in others}
        steady: list[dict[str, Sample]] = []
        done = 0
        for number in range(1, rounds + 1):
            for name in others:
                tell(done, f"round {number} of {rounds}, without {name}")
                two = {each: (subjects[each], LoadShape(CONNECTIONS)) for each in (WHOLE, name)}
                found = run_together(generators, two, seconds)
                pairs[name].append((found[WHOLE], found[name]))
                done += 1
            tell(done, f"round {number} of {rounds}, all at {rate} requests/s")
            every_one = {name: (each, LoadShape(FEW, rate)) for name, each in subjects.items()}
            steady.append(run_together(generators, every_one, seconds))
            done += 1
    return costs_of(engine, rate, pairs, steady, {name: reasons[0].message for name, reasons in failed.items()})


def _warm_up(subjects: dict[str, Subject], generators: Generators, tell: Callable[[int, str], None]) -> int:
    """Load each for a second; the constant rate of each."""
    rates = {}
    for name, subject in subjects.items():
        tell(0, f"warming up {name}")
        load = run_round(generators, subject, LoadShape(2 * CONNECTIONS), WARM_UP_SECONDS).load
        rates[name] = load.per_second
    return max(1, round(SHARE * statistics.median(rates.values()) / len(subjects)))


def costs_of(
    engine: MeasuredEngine,
    rate: int,
    pairs: Mapping[str, Sequence[tuple[Sample, Sample]]],
    steady: Sequence[Mapping[str, Sample]],
    failed: dict[str, str],
) -> EngineCosts:
    """The prices. `pairs`: by feature the whole topology and that without it, in closed loops; `steady`: all of them at
    `rate`, by round."""
    whole_cpu = Spread(
        tuple(_micros(whole) for found in pairs.values() for whole, _ in found)
        or tuple(_micros(x[WHOLE]) for x in steady)  # there is no feature
    )
    whole_p50 = Spread(tuple(x[WHOLE].load.p50_ms for x in steady))
    more = {name: [_micros(whole) - _micros(part) for whole, part in found] for name, found in pairs.items()}
    later = {name: [x[WHOLE].load.p50_ms - x[name].load.p50_ms for x in steady] for name in pairs}
    cpu, p50 = Added.of(more, whole_cpu.median), Added.of(later, whole_p50.median)
    prices = tuple(Price(name, cpu[name], p50[name]) for name in pairs)
    return EngineCosts(engine, rate, whole_cpu, whole_p50, prices, failed)


def _micros(sample: Sample) -> float:
    return (sample.cpu or 0.0) * 1e6 / sample.load.requests
