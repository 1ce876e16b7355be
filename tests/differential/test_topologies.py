"""Random topologies, faults and times included: every engine does what the oracle says, on 100 requests and all faults.

`pytest tests/differential/test_topologies.py --topologies 500 [--topologies-seed N]` draws so many (default: 1).
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.conformance.subject import subjects
from lbgen.runtime.local import world
from lbgen.spec.dump import dump
from tests.topologies import smaller, topology

if TYPE_CHECKING:
    from lbgen.conformance.runner import Result

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.skipif(bool(world.possible()), reason=world.possible() or "it is possible"),
]
REQUESTS = 100
SHRINKS = 12  # verifications that a failure may cost
L7 = ("envoy", "haproxy", "nginx", "traefik")


def differences(data: dict[str, Any], engines: tuple[str, ...], seed: int) -> tuple[Result, ...]:
    report = lbgen.verify(lbgen.load(data), engines, requests=REQUESTS, seed=seed)
    assert not report.broken, [str(reason) for left in report.broken for reason in left.reasons]
    return tuple(report.differences)


def smallest(data: dict[str, Any], first: Result, seed: int) -> tuple[dict[str, Any], Result]:
    """The topology with as little as still shows a difference of that clause on that engine."""
    engines = (first.subject.split(" ")[0].rstrip(","),)
    left = SHRINKS
    while True:
        for less in smaller(data):
            if left <= 0:
                return data, first
            left -= 1
            try:
                found = [x for x in differences(less, engines, seed) if x.clause == first.clause]
            except lbgen.LbgenError:
                continue  # no topology any more
            if found:
                data, first = less, found[0]
                break
        else:
            return data, first


def test_engines_agree_on_random_topologies(request: pytest.FixtureRequest) -> None:
    count, seed = request.config.getoption("--topologies"), request.config.getoption("--topologies-seed")
    engines = tuple(name for name in L7 if subjects((name,))[0].binary is not None)
    assert engines, "no engine is here"
    told: Counter[str] = Counter()
    drawn = 0
    rng = random.Random(seed)
    while drawn < count:
        data = topology(rng, engines, told)
        try:
            lbgen.plan(lbgen.load(data))
        except lbgen.LbgenError:
            continue  # two routes of one match, say
        drawn += 1
        found = differences(data, engines, drawn)
        if found:
            small, first = smallest(data, found[0], drawn)
            pytest.fail(
                f"seed {seed}, topology {drawn}, {len(found)} differences; {first.subject}, {first.case}:\n"
                f"{first.again}\n{first.detail}\n{dump(small)}",
                pytrace=False,
            )
    print(f"{drawn} topologies on {', '.join(engines)}, seed {seed}: {dict(told)}")  # noqa: T201  # figures of the run
