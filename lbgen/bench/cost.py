"""What each feature of a topology costs on each engine: it is measured beside the same topology without the feature.

All variants of an engine run side by side, on cores that nothing else of the benchmark uses. CPU per request is that of
closed loops, in pairs: the whole topology and a variant are loaded at the same time, so that whatever else the machine
does slows both of them. Latency is that of a constant rate, at which all variants are loaded at the same time.
"""

from __future__ import annotations

import math
import os
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from lbgen.bench.gate import verified_engines
from lbgen.bench.load import BenchProgress, Generators, LoadShape
from lbgen.bench.report import MeasuredEngine, Sample, Spread, UnmeasuredEngine, Why, exit_code_of
from lbgen.bench.rounds import WARM_UP_SECONDS, run_round, run_together
from lbgen.bench.run import REQUESTS, plan_of
from lbgen.bench.subjects import Subject, Unit, running
from lbgen.bench.target import choose_target
from lbgen.bench.without import Variant, variants
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.engines.api import Engine
from lbgen.json_types import Printed
from lbgen.plan.request import Request
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.local.messages import EngineChoice

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

WHOLE = "whole"
SECONDS, ROUNDS = 1, 5
CONNECTIONS = 25  # of each of a pair
SHARE = 0.25  # of what the engine answers in a closed loop, which all variants share: no queue adds to the latency
FEW = 5  # connections at a constant rate


class FeatureCost(Printed, frozen=True):
    """What a feature adds, by round."""

    feature: Annotated[str, Meta(description="A field of the topology, `other routes`, or `layer 7`.")]
    cpu_us_per_request: Spread
    cpu_interval: Annotated[tuple[float, float], Meta(description="Where the mean is with a confidence of 99.9 %.")]
    cpu_measurable: Annotated[bool, Meta(description="false: no more than what the machine does by itself.")]
    p50_ms: Spread
    p50_interval: tuple[float, float]
    p50_measurable: bool


class EngineCosts(Printed, frozen=True):
    """An engine: the figures of the whole topology, and what each feature of it adds."""

    engine: str
    version: str
    rate: Annotated[int, Meta(description="Requests per second.")]
    cpu_us_per_request: Spread
    p50_ms: Spread
    features: tuple[FeatureCost, ...]
    failed: Annotated[dict[str, str], Meta(description="By feature: why the engine did not run without it.")]


class CostReport(Printed, frozen=True):
    """What the features of a topology cost."""

    name: str
    cores: int
    route: str
    target: Annotated[str, Meta(description="Path and query.")]
    seconds: Annotated[int, Meta(description="Of each round.")]
    rounds: int
    costs: tuple[EngineCosts, ...]
    not_measured: tuple[UnmeasuredEngine, ...]

    @property
    def exit_code(self) -> int:
        """As that of a benchmark."""
        return exit_code_of(self.not_measured)


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
    generators, plan = Generators.find(), plan_of(topology)
    target = choose_target(plan, request, listener)
    good, left = verified_engines(plan, engines, accept, requests, progress)
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
    cores, what = os.cpu_count() or 1, (target.route, target.target)
    return CostReport(plan.name, cores, *what, seconds, rounds, tuple(found), (*left, *failed))


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
            return UnmeasuredEngine.of(choice.name, Why.FAILED, failed[WHOLE])
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
    whole_cpu = Spread.of(
        [_micros(whole) for found in pairs.values() for whole, _ in found]
        or [_micros(x[WHOLE]) for x in steady]  # there is no feature
    )
    whole_p50 = Spread.of(x[WHOLE].load.p50_ms for x in steady)
    more = {name: [_micros(whole) - _micros(part) for whole, part in found] for name, found in pairs.items()}
    later = {name: [x[WHOLE].load.p50_ms - x[name].load.p50_ms for x in steady] for name in pairs}
    cpu, p50 = Added.of(more, whole_cpu.median), Added.of(later, whole_p50.median)
    features = tuple(FeatureCost(name, *cpu[name].figures, *p50[name].figures) for name in pairs)
    return EngineCosts(engine.engine, engine.version, rate, whole_cpu, whole_p50, features, failed)


def _micros(sample: Sample) -> float:
    return (sample.cpu or 0.0) * 1e6 / sample.load.requests


# Student's t for 99.9 % on both sides, by degrees of freedom: one of 1,000 equal pairs differs by chance.
_T = {
    1: 636.6, 2: 31.60, 3: 12.92, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781, 10: 4.587, 11: 4.437,
    12: 4.318, 13: 4.221, 14: 4.140, 15: 4.073, 17: 3.965, 19: 3.883, 24: 3.745, 29: 3.659, 39: 3.558, 59: 3.463,
    119: 3.374,
}  # fmt: skip

LUCK = 0.02  # of a figure: so much an equal process may differ for all of its life, by where its memory lies


class Added(Struct, frozen=True):
    """By round: the figure of the whole less that of the part at the same time (`spread`). `interval`: where the mean
    is with a confidence of 99.9 %."""

    spread: Spread
    interval: tuple[float, float]

    @staticmethod
    def of(differences: Mapping[str, Sequence[float]], whole: float = 0.0) -> dict[str, Added]:
        """By name what each thing adds, from its rounds; `whole` is the figure of the whole.

        The variance is pooled from all of them, since it is the machine's; that of the thing itself counts where it is
        greater."""
        squares = {name: sum((x - statistics.mean(found)) ** 2 for x in found) for name, found in differences.items()}
        degrees = sum(len(found) - 1 for found in differences.values())
        pooled = sum(squares.values()) / max(1, degrees)
        known = list(_T)
        t = _T[known[bisect_right(known, max(1, degrees)) - 1]]
        made = {}
        for name, found in differences.items():
            own = squares[name] / (len(found) - 1) if len(found) > 1 else 0.0
            deviation = math.sqrt(max(pooled, own)) if degrees else abs(found[0])  # one round shows nothing
            half = LUCK * whole + t * deviation / math.sqrt(len(found))
            mean = statistics.mean(found)
            made[name] = Added(Spread.of(found), (mean - half, mean + half))
        return made

    @property
    def measurable(self) -> bool:
        """Whether it shows: the interval has 0 outside."""
        low, high = self.interval
        return low > 0 or high < 0

    @property
    def figures(self) -> tuple[Spread, tuple[float, float], bool]:
        """As a report has them."""
        return self.spread, self.interval, self.measurable
