"""Random topologies and requests near their boundaries: every engine does what the oracle says, and what is not
well-formed is refused or served in a form on which the rules hold.

`LBGEN_DIFFERENTIAL=50000` sets the number of requests per engine (default 1,000; `make test-versions` 2,000) and takes
new random ones each time; `LBGEN_DIFFERENTIAL_SEED` repeats a run.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.curl import curl
from lbgen.conformance.difference import Difference, Kind
from lbgen.conformance.expected_difference import USUAL, besides_everywhere, explained_by_use
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.judge import differences
from lbgen.conformance.own_answers import check_safe
from lbgen.conformance.prepare import DeclaredDifference, own_headers
from lbgen.conformance.wait_ready import wait_ready
from lbgen.engines.api import Level, engine
from lbgen.plan.conditions import Query
from lbgen.plan.features import all_features
from lbgen.plan.overlay import with_endpoints, with_ports
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.precedence import host_tables
from lbgen.plan.simulate import simulate
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.engine_lists import l7_engines_on_host, newest_first
from tests.support.shared import once
from tests.support.strategies import PlanShape, plans, requests, rules_of
from tests.support.version_results import DIFFERENTIAL, recorded

if TYPE_CHECKING:
    from lbgen.conformance.engine_under_test import EngineUnderTest
    from lbgen.plan.model import HostTable, Listener, Plan
    from lbgen.plan.request import Request

pytestmark = pytest.mark.engines
WANTED = int(os.environ.get("LBGEN_DIFFERENTIAL", "1000"))
SEED = int(os.environ.get("LBGEN_DIFFERENTIAL_SEED", "0")) or (
    random.SystemRandom().randrange(1, 1 << 32) if "LBGEN_DIFFERENTIAL" in os.environ else 1
)
TIMES = ("timeouts.connect", "timeouts.response", "timeouts.idle")
BATCH = 100  # requests drawn per topology
CROSSED = 4  # so many times these, of a method, a target and fields of three of them
FIRST_PORT = int(os.environ.get("LBGEN_CONFORMANCE_PORTS", "0"))
L7 = newest_first(l7_engines_on_host())


@st.composite
def trials(draw: st.DrawFn) -> tuple[Plan, list[Request]]:
    plan = draw(plans(PlanShape(rules=30)))
    return plan, [draw(requests(plan)) for _ in range(BATCH)]


def drawn_trials(number: int) -> list[tuple[Plan, list[Request]]]:
    """The batch of this number. A draw that turns out too long for Hypothesis counts for nothing."""
    found: list[tuple[Plan, list[Request]]] = []

    @seed(SEED + number)
    @settings(
        max_examples=max(1, WANTED // BATCH // 4),
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(trials())
    def draw(drawn: tuple[Plan, list[Request]]) -> None:
        found.append(drawn)

    draw()
    return found


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory):
    """Batches by number, the same for every engine; each is drawn once for all workers, which takes seconds."""

    @cache
    def read(number: int) -> list[tuple[Plan, list[Request]]]:
        with once(f"trials-{SEED}-{number}", tmp_path_factory) as (file, missing):
            if missing:
                file.write_bytes(pickle.dumps(drawn_trials(number)))
            return pickle.loads(file.read_bytes())  # noqa: S301  # a worker of this run wrote it

    return read


@pytest.fixture(scope="module")
def addresses():
    taken: set[int] = set()
    for _ in range(2):
        taken.add(free_port("127.0.0.1", FIRST_PORT, frozenset(taken)))
    stand_ins = [StandIn(f"p{n}-0", f"p{n}", "127.0.0.1", port) for n, port in enumerate(sorted(taken))]
    with stand_in_servers(stand_ins):
        yield {f"pools.{s.pool}.endpoints[0]": (s.host, s.port) for s in stand_ins}


def without(plan: Plan, routes: set[str]) -> Plan:
    """The plan minus some routes."""

    def left(listener: Listener) -> tuple[HostTable, ...]:
        rules = [r for r in rules_of(replace(plan, listeners=(listener,))) if r.route not in routes]
        return host_tables(rules)

    kept = tuple(r for r in plan.routes if r.name not in routes)
    return replace(plan, listeners=tuple(replace(x, hosts=left(x)) for x in plan.listeners), routes=kept)


def fitted(plan: Plan, subject: EngineUnderTest) -> Plan:
    """The plan minus routes with places that the engine refuses or serves differently (in time is no matter here)."""
    objections = engine(subject.engine).objections(plan, subject.version)
    objected = {o.field for o in objections if o.feature not in TIMES}
    gone = {r.name for r in plan.routes if any(f == r.field or f.startswith(r.field + ".") for f in objected)}
    return without(plan, gone) if gone else plan


def repeats_a_name(request: Request) -> bool:
    """Whether a header field, a query parameter or a cookie comes twice: which one counts is an engine's habit."""
    cookies = [value for name, value in request.headers if name.lower() == "cookie"]
    lists = (
        [name.lower() for name, _ in request.headers],
        [pair.partition("=")[0] for pair in request.target.partition("?")[2].split("&")],
        [pair.partition("=")[0].strip() for pair in ";".join(cookies).split(";")],
    )
    return any(len(set(names)) < len(names) for names in lists)


def names_an_odd_host(request: Request) -> bool:
    """Whether the host is written with a default port, a dot at its end or in capitals: engines may write it out in
    their own way, in Host and in Location."""
    hosts = [value for name, value in request.headers if name.lower() == "host"]
    hosts.append(request.target.partition("://")[2].partition("/")[0])
    return any(
        host.endswith((":80", ":443")) or host.partition(":")[0].endswith(".") or host != host.lower() for host in hosts
    )


def ends_fields(request: Request) -> bool:
    """Whether the stand-in's response names header fields in Connection."""
    return any(name.lower() == "x-stand-in" and '"Connection"' in value for name, value in request.headers)


def passes_underscores(plan: Plan, request: Request, subject: EngineUnderTest) -> bool:
    """Whether a field's name with `_` passes, on an engine that reads it as the one with `-`."""
    verdict = engine(subject.engine).verdict("headers_with_underscores.pass", subject.version)
    passed = any(listener.underscores for listener in plan.listeners)
    return verdict.level is Level.HABIT and passed and any("_" in name for name, _ in request.headers)


def asks_patterns(plan: Plan, request: Request, subject: EngineUnderTest) -> bool:
    """Whether a regex sees another path than this, on engines that escape characters that RFC 3986 has no place for, or
    decode escapes."""
    verdict = engine(subject.engine).verdict("match.path.regex", subject.version)
    patterns = any(not rule.match.path.is_text for rule in rules_of(plan))
    seen = "%" if "decoded" in verdict.note else r'["<>\\^`{|}]'
    return verdict.level is Level.HABIT and patterns and re.search(seen, request.target.partition("?")[0]) is not None


def breaks_an_escape(plan: Plan, request: Request, subject: EngineUnderTest) -> bool:
    """Whether a query has a `%` without two hexadecimal digits, on an engine for which the parameter is not there."""
    verdict = engine(subject.engine).verdict("match.query", subject.version)
    asked = any(isinstance(each.subject, Query) for rule in rules_of(plan) for each in rule.match.conditions)
    broken = re.search(r"%(?![0-9A-Fa-f]{2})", request.target.partition("?")[2])
    return verdict.level is Level.HABIT and asked and broken is not None


def meets_habits(plan: Plan, request: Request, subject: EngineUnderTest) -> bool:
    """Whether engines answer the request each in its own way."""
    everywhere = repeats_a_name(request) or names_an_odd_host(request) or ends_fields(request)
    here = (passes_underscores, asks_patterns, breaks_an_escape)
    return everywhere or any(each(plan, request, subject) for each in here)


def crossed(asked: list[Request]) -> list[Request]:
    """More requests near the same boundaries, for the start of one engine: drawing one takes longer than asking it."""
    chosen = random.Random(SEED)
    made = list(asked)
    while len(made) < CROSSED * len(asked):
        one, other, third = (chosen.choice(asked) for _ in range(3))
        made.append(replace(one, method=other.method, target=third.target))
    return made


def told(plan: Plan) -> str:
    """What a person needs to see of a plan."""
    lines = [f"{x.name}: {x.address}:{x.port} trusted {x.trusted_proxies}" for x in plan.listeners]
    lines += [f"  {r.rank:3} {r.id}: {r.host or '(any)'} {r.match}" for r in rules_of(plan)]
    lines += [f"  {r.name}: {r.action} {r.request_headers} {r.response_headers}" for r in plan.routes]
    return "\n".join(lines)


def declared(subject: EngineUnderTest) -> list[DeclaredDifference]:
    """All that the engine's verdicts declare: random plans list no uses of features."""
    verdicts = ((feature, engine(subject.engine).verdict(feature, subject.version)) for feature in all_features())
    return [DeclaredDifference(feature, v.note, level=v.level, differs=v.differs) for feature, v in verdicts]


def wrong(plan: Plan, asked: list[Request], subject: EngineUnderTest) -> list[tuple[Request, list[Difference]]]:
    """The requests that one start of the engine answers otherwise than the oracle, with the differences."""
    with ExitStack() as stack:
        handle = stack.enter_context(run_engine(subject.engine, plan, subject.binary, accept=("all",)))
        wait_ready(plan, handle)
        address = handle.address("web")
        near = declared(subject)
        own = own_headers(near)

        def one(request: Request) -> list[Difference]:
            outcome, answer = simulate(plan, request), fetch(address, request)
            if not outcome.well_formed:
                return list(check_safe(plan, request, answer))
            if outcome.route is None:
                assert outcome.status is not None
                if is_own_status(answer.status, outcome.status):
                    return []
                return [Difference(Kind.STATUS, answer.status, outcome.status)]
            found = besides_everywhere(
                near, differences(Case("random", "random", request, Expect()), outcome, answer, own), USUAL
            )
            return [] if explained_by_use(near, found, USUAL) else found

        with ThreadPoolExecutor(4) as pool:
            return [(r, found) for r, found in zip(asked, pool.map(one, asked), strict=True) if found]


def smallest(plan: Plan, request: Request, subject: EngineUnderTest) -> Plan:
    """Drop routes as long as the request is still answered otherwise; at most 40 starts."""
    names = [r.name for r in plan.routes]
    starts = 0
    size = max(1, len(names) // 2)
    while size:
        for at in range(0, len(names), size):
            less = without(plan, set(names[at : at + size]))
            if starts < 40 and less.routes:
                starts += 1
                if wrong(less, [request], subject):
                    plan = less
        names = [r.name for r in plan.routes]
        size = 0 if starts >= 40 else size // 2
    return plan


@pytest.mark.parametrize("subject", L7)
def test_engine_and_oracle_agree(subject: EngineUnderTest, addresses, batch) -> None:
    counts: Counter[str] = Counter()

    def trial(plan: Plan, asked: list[Request]) -> None:
        plan = with_ports(with_endpoints(plan, addresses), {"web": free_port("127.0.0.1", FIRST_PORT)})
        plan = fitted(plan, subject)
        asked = [request for request in crossed(asked) if not meets_habits(plan, request, subject)]
        if not plan.routes:
            return
        counts["requests"] += len(asked)
        counts["rules"] = max(counts["rules"], len(rules_of(plan)))
        counts.update("forwarded" if simulate(plan, r).upstreams else "answered" for r in asked)
        found = wrong(plan, asked, subject)
        if found:
            request, differ = found[0]
            said = "; ".join(each.sentence for each in differ)
            less = smallest(plan, request, subject)
            pytest.fail(
                f"seed {SEED}, after {counts['requests']} requests on {subject.label}: {len(found)} of {len(asked)}\n"
                f"{said}\n{curl(('127.0.0.1', less.listeners[0].port), request)}\n{request}\n"
                f"oracle: {simulate(less, request)}\n{told(less)}",
                pytrace=False,
            )

    with recorded(DIFFERENTIAL, subject.engine, subject.version, "random") as figures:
        for drawn in map(batch, itertools.count()):
            for plan, asked in drawn:
                trial(plan, asked)
            figures["requests"] = counts["requests"]
            if counts["requests"] >= WANTED:
                break
    print(f"{subject.label}: {dict(counts)}, seed {SEED}")  # noqa: T201  # figures of the run
    assert counts["forwarded"] > counts["requests"] / 4
    assert counts["rules"] > 15
