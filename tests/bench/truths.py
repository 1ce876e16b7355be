"""`python -m tests.bench.truths`: plants differences that `lbgen bench` must find, and none where it must find none.

tests/engines/test_bench_truths.py has those that take few seconds. These take about five minutes; exit 1 where one
fails.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from rich.console import Console

import lbgen
from lbgen.bench.cost import CONNECTIONS, Added, cost
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import Generators, LoadShape
from lbgen.bench.rounds import run_together
from lbgen.bench.subjects import Subject, Unit, apart, engine_cores, running
from lbgen.bench.target import choose_target
from lbgen.conformance.free_ports import FreePorts
from lbgen.engines.rendered import render_with
from lbgen.plan.overlay import with_ports, with_workers
from lbgen.plan.request import Request
from lbgen.runtime.local.process import run_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.bench.report import Sample
    from lbgen.runtime.local.messages import EngineChoice

ROUNDS, RUNS, ROUTES = 4, 10, 1000
PAIRS, MANY = 6, 24  # rounds of a pair; of one that differs by a microsecond
CONSTANT = LoadShape(20, 500)


def topology(endpoints: int = 1, **more: Any) -> Any:
    """Plain forwarding, and what `more` sets."""
    return lbgen.load(
        {
            "version": 1,
            "name": "truth",
            "profile": "minimal",
            "listeners": {"web": {"port": 8080}},
            "pools": {"app": {"endpoints": [{"address": f"10.0.0.{n + 1}:80"} for n in range(endpoints)]}},
            "routes": [{"name": "all", "forward": "app"}],
            **more,
        }
    )


@contextmanager
def pair(asked: Any, engine: str, edit: Callable[[str], str]) -> Iterator[tuple[Subject, Subject]]:
    """An engine on a topology, and the same with edited files, before one endpoint."""
    plan = with_workers(lbgen.plan(asked), max(1, len(engine_cores())))
    target = choose_target(plan)
    ((choice, _),), _ = verified_engines(plan, (engine,), (), 10, lambda event: None)
    with running([Unit("whole", choice, plan, target)], ()) as ((direct, whole), failed):
        assert not failed
        assert whole.process is not None
        other = with_ports(whole.process.plan, {"web": FreePorts(avoid={whole.port}).take()})
        files = _edited(choice, other, edit)
        with run_engine(choice.engine, other, choice.binary, rendered=files) as process:
            edited = Subject("edited", other.listener("web").port, target, process)
            with apart([*whole.leaders(), *edited.leaders()], [direct.answering or 0]):
                yield whole, edited


def _edited(choice: EngineChoice, plan: Any, edit: Callable[[str], str]) -> Any:
    rendered = render_with(choice.engine, plan, choice.version, ())
    return rendered.with_files(replace(x, text=edit(x.text)) for x in rendered.files)


def added(whole: Subject, part: Subject, rounds: int = PAIRS) -> tuple[Added, Added]:
    """What the first adds to the second: CPU microseconds per request in closed loops, and milliseconds of p50 at a
    constant rate; as `lbgen bench --cost` measures it."""
    generators = Generators.find()
    every: list[list[dict[str, Sample]]] = []
    for shape in (LoadShape(CONNECTIONS), CONSTANT):
        loads = {each.name: (each, shape) for each in (whole, part)}
        run_together(generators, loads, 1)
        every.append([run_together(generators, loads, 1) for _ in range(rounds)])
    pairs, steady = every
    cpu = [_micros(x[whole.name]) - _micros(x[part.name]) for x in pairs]
    p50 = [x[whole.name].load.p50_ms - x[part.name].load.p50_ms for x in steady]
    one = pairs[0][part.name], steady[0][part.name]
    return Added.of({"": cpu}, _micros(one[0]))[""], Added.of({"": p50}, one[1].load.p50_ms)[""]


def _micros(sample: Sample) -> float:
    return (sample.cpu or 0.0) * 1e6 / sample.load.requests


def unbuffered_log() -> tuple[bool, str]:
    """nginx without the buffer of its access log takes more CPU per request."""

    def unbuffer(text: str) -> str:
        assert " buffer=64k flush=1s" in text
        return text.replace(" buffer=64k flush=1s", "")

    with pair(topology(access_log="json"), "nginx", unbuffer) as (whole, edited):
        cpu, _ = added(edited, whole, MANY)
    return cpu.measurable and cpu.mean > 0, f"CPU: {_said(cpu)} us/request"


def regex_among_many() -> tuple[bool, str]:
    """A thousand regexes that nginx tries in order are in the price of `other routes`, in CPU."""
    routes = [
        {"name": f"r{n}", "match": [{"path": {"regex": f"/products/[a-z]+/{n}/[0-9]+"}}], "forward": "app"}
        for n in range(ROUTES)
    ]
    last = {"name": "last", "match": [{"path": {"regex": "/p[a-z]+/x/[0-9]+"}}], "forward": "app"}
    request = Request("GET", "/products/x/7", (("Host", "a.example"),), "web")
    found = cost(topology(routes=[*routes, last]), ("nginx",), request=request, rounds=ROUNDS)
    (engine,) = found.costs
    price = next(x for x in engine.features if x.feature == "other routes")
    cpu, p50 = Added(price.cpu_us_per_request, price.cpu_interval), Added(price.p50_ms, price.p50_interval)
    return cpu.interval[0] > 0, f"CPU: {_said(cpu)} us/request; p50: {_said(p50)} ms"


def slow_endpoint() -> tuple[bool, str]:
    """One endpoint of three that is 5 ms late shows in p95 of a constant rate, and not in p50."""
    few = {"connections": (20,), "rates": (100,), "seconds": 3, "rounds": ROUNDS, "requests": 10}
    found = lbgen.bench(topology(3), ("haproxy",), delays={"pools.app.endpoints[1]": 0.005}, **few)
    direct, row = (x for x in found.rows if x.shape.rate is not None)
    assert row.p95_ms is not None
    assert direct.p95_ms is not None
    good = row.p50_ms.median < 5 <= min(row.p95_ms.rounds) and direct.p50_ms.median < row.p95_ms.median
    figures = f"p50 {row.p50_ms.median:.2f} and p95 {row.p95_ms.median:.2f} ms"
    return good, f"{figures}; direct: {direct.p50_ms.median:.2f} and {direct.p95_ms.median:.2f} ms"


def equal_configurations() -> tuple[bool, str]:
    """Equal configurations differ by less than the interval in 10 of 10 runs, each of two new processes."""
    runs = []
    for _ in range(RUNS):
        with pair(topology(), "haproxy", lambda text: text) as (whole, same):
            runs.append(added(whole, same))
    shown = sum(x.measurable for run in runs for x in run)
    widest = max(run[0].interval[1] - run[0].interval[0] for run in runs) / 2
    return shown == 0, f"{shown} of {2 * RUNS} figures are shown as different; CPU to +-{widest:.1f} us at worst"


TRUTHS: dict[str, Callable[[], tuple[bool, str]]] = {
    "unbuffered-log": unbuffered_log,
    "regex": regex_among_many,
    "slow-endpoint": slow_endpoint,
    "equal": equal_configurations,
}


def _said(found: Added) -> str:
    low, high = found.interval
    return f"{(low + high) / 2:+.2f} ({low:+.2f} to {high:+.2f})"


def main() -> int:
    """Measure, and print what came of each."""
    about = argparse.ArgumentParser("python -m tests.bench.truths", description=(__doc__ or "").partition(": ")[2])
    about.add_argument("--only", choices=tuple(TRUTHS), action="append", help="repeatable")
    console, failed = Console(), 0
    for name in about.parse_args().only or TRUTHS:
        good, figures = TRUTHS[name]()
        failed += not good
        console.print(
            f"{'found' if good else 'MISSED'}: {TRUTHS[name].__doc__} {figures}", markup=False, soft_wrap=True
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
