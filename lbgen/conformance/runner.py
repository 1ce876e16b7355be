"""Run case files: serve the topology of each file with a real engine and judge its cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.conformance.curl import curl
from lbgen.conformance.difference import Difference  # the schema of `Result` names it
from lbgen.conformance.expected_difference import (
    USUAL,
    MissingDifferenceError,
    besides_everywhere,
    explained_by,
    explained_by_use,
)
from lbgen.conformance.prepare import Prepared, own_headers, plan_of, prepare
from lbgen.conformance.run_case import fill_placeholders, run_case
from lbgen.conformance.scripts.context import ScriptContext
from lbgen.conformance.transport import transport_for
from lbgen.conformance.wait_ready import ServingEngine, unusual_pools, wait_ready
from lbgen.diagnostics import EngineError
from lbgen.engines.api import Level, NeedsKernel, engine, runs_in_kernel
from lbgen.plan.model import Plan
from lbgen.plan.simulate import simulate
from lbgen.runtime.docker.single_engine import serve
from lbgen.runtime.local.network import admit_loopback_clients, network
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import StandInServers, stand_in_servers

if TYPE_CHECKING:
    from lbgen.conformance.case import Case, CaseFile
    from lbgen.conformance.engine_under_test import EngineUnderTest

_PARALLEL = 6  # cases of one engine at a time, so that waiting for timeouts overlaps
# No binary, no root: the engine could not be tried at all.
_SKIPS = frozenset({"LB402", "LB407", "LB432"})


class CaseState(StrEnum):
    """`habit`: differs in the engine's own way, as its verdict says; nobody has to accept that. `approximate`: differs,
    and the engine's verdict says so. `refused`: the engine's verdict refuses what the case needs. `skipped`: not run
    here, a gap and not a pass."""

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    HABIT = "habit"
    APPROXIMATE = "approximate"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Result(Struct, frozen=True):
    """The result of one case on one engine. `again` is a curl line or the raw bytes; `seconds` the duration.
    `differences` are those of a failure, which `detail` says in sentences."""

    subject: str
    file: str
    case: str
    clause: str
    state: CaseState
    detail: str = ""
    again: str = ""
    seconds: float = 0.0
    differences: tuple[Difference, ...] = ()


class EngineSession(Struct):
    """An engine that serves a file's topology, with its stand-ins. `strict`: declared differences must show. `metrics`:
    see `ScriptContext`."""

    subject: EngineUnderTest
    file: CaseFile
    ready: Prepared
    endpoints: StandInServers
    handle: ServingEngine | None
    strict: bool = True
    metrics: Callable[[], str] = str

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener answers ("" = the first)."""
        name = listener or self.ready.whole.listeners[0].name
        if self.handle is not None and self.ready.served is not None:
            return self.handle.address(name)
        raise KeyError(name)

    def run(self, case: Case) -> Result:
        """Judge one case."""
        begun = time.monotonic()
        state, detail, again, *found = self._run(case)
        if state is CaseState.FAIL and self.handle is not None:
            try:
                self.handle.ensure_alive()
            except EngineError as ended:
                detail = f"{detail}; {ended}"
        seconds = time.monotonic() - begun
        return Result(
            self.subject.label, self.file.name, case.id, case.clause, state, detail, again, seconds, tuple(found)
        )

    def _run(self, case: Case) -> tuple[CaseState, str, str, *tuple[Difference, ...]]:
        plan = self.ready.whole
        case = fill_placeholders(case, plan)
        listener = case.request.listener or str(case.params.get("listener") or plan.listeners[0].name)
        verdicts = self.ready.verdicts
        if listener in verdicts.listeners:
            return CaseState.REFUSED, verdicts.listeners[listener], ""
        if self.ready.served is None:
            return CaseState.REFUSED, next(iter(verdicts.routes.values()), "nothing is left to serve"), ""
        needed = self._routes(case, listener)
        for name in needed & verdicts.routes.keys():
            return CaseState.REFUSED, verdicts.routes[name], ""
        served_by = plan.listener(listener)
        if listener not in {each.name for each in self.ready.served.listeners}:  # all its routes are refused
            reasons = (verdicts.routes[rule.route] for rule in served_by.l4_rules if rule.route in verdicts.routes)
            return CaseState.REFUSED, next(reasons, "no route of the listener is left to serve"), ""
        address = self.address(listener)
        again = curl(address, case.request, transport_for(served_by, case.request, case.transport))
        if case.raw is not None or case.tcp is not None:
            again = f"{address[0]}:{address[1]} <- {(case.raw if case.tcp is None else case.tcp)!r}"
        elif case.script is not None:
            again = f"script {case.script}"
        try:
            usual = USUAL if not self.strict and is_usual(case, plan) else None
            found = besides_everywhere(verdicts.near, run_case(case, address, self._stage(case)), usual)
        except KeyError as missing:  # a script that needs a listener which this engine refuses
            if case.script is None or missing.args[0] not in verdicts.listeners:
                raise
            return CaseState.REFUSED, verdicts.listeners[missing.args[0]], again
        anywhere = not needed and not self.strict  # the oracle finds no route, and another one may have been meant
        declared = [n for n in verdicts.near if anywhere or n.route in needed | {""}]
        try:
            near = explained_by(case.features, declared, found, habits=self.strict)
            if self.strict or case.script is None:  # scripts of a user's topology name what excuses them
                near = near or explained_by_use(declared if needed else verdicts.near, found, usual)
        except MissingDifferenceError as error:
            return (CaseState.FAIL, str(error), again) if self.strict else (CaseState.PASS, "", again)
        if not found:
            return CaseState.PASS, "", again
        if near:
            worst = max((n.level for n in near), key=list(Level).index)
            return CaseState(worst.value), "; ".join([*(n.note for n in near), *(one.sentence for one in found)]), again
        return CaseState.FAIL, "; ".join(one.sentence for one in found), again, *found

    def _routes(self, case: Case, listener: str) -> set[str]:
        """The routes that the case needs."""
        plan = self.ready.whole
        if case.routes:
            return set(case.routes)
        if case.oracle:
            route = simulate(plan, case.request).route
            return set() if route is None else {route}
        rules = plan.listener(listener).l4_rules
        if rules:
            return {rule.route for rule in rules}
        return {route.name for route in plan.routes} if case.script is not None else set()

    def _stage(self, case: Case) -> ScriptContext:
        served = self.ready.served
        at = {x.name: self.address(x.name) for x in served.listeners} if served is not None else {}
        own = own_headers(self.ready.verdicts.near)
        return ScriptContext(at, self.endpoints, self.ready.whole, self._log, case.params, own, self.metrics)

    def _log(self) -> list[tuple[str, Mapping[str, object]]]:
        assert self.handle is not None  # noqa: S101  # nothing is asked of an engine that does not run
        target = engine(self.subject.engine)
        read = ((line, target.access_record(line)) for line in self.handle.access_lines())
        return [(line, record or {}) for line, record in read if record is not None or line.startswith("{")]


def is_usual(case: Case, plan: Plan) -> bool:
    """Whether the case is a well-formed request, and no endpoint fails."""
    return case.oracle and not case.steps and simulate(plan, case.request).well_formed


@contextmanager
def engine_session(file: CaseFile, subject: EngineUnderTest) -> Iterator[EngineSession]:
    """Serve `file` with `subject`; EngineError when it cannot be started.

    For an engine in an image this thread and the stand-ins enter the network namespace of its container."""
    target, image = engine(subject.engine), subject.in_image
    kernel = runs_in_kernel(target, plan_of(file.topology))
    host, link = "127.0.0.1", None
    with ExitStack() as stack:
        if image is not None and kernel:
            host = image.netns.bridge
        elif image is not None:
            stack.enter_context(image.netns.enter())
        elif kernel:
            link = stack.enter_context(network())
            link.admit_loopback_clients()
            host = link.host
        ready = prepare(file, subject.engine, subject.version, host)
        group = stack.enter_context(stand_in_servers(ready.stand_ins))
        handle: ServingEngine | None = None
        if ready.served is not None:
            if image is not None:
                serving = serve(image.netns, target, subject.version, image.image, ready.served, accept=("all",))
                handle = boxed = stack.enter_context(serving)
                if kernel:
                    admit_loopback_clients(boxed.pid, host, boxed.host)
            else:
                assert subject.binary is not None  # noqa: S101  # a gap is never served
                local = run_engine(subject.engine, ready.served, subject.binary, accept=("all",), network=link)
                handle = stack.enter_context(local)
            wait_ready(ready.served, handle, avoid=unusual_pools(file, ready.served))
        yield EngineSession(subject, file, ready, group, handle)


def run_file(
    file: CaseFile, subject: EngineUnderTest, *, wanted: Callable[[Case], bool] = lambda case: True
) -> tuple[Result, ...]:
    """Every wanted case of `file` on `subject`, in order."""
    cases = [case for case in file.cases if wanted(case)]
    if not cases:
        return ()

    def every(state: CaseState, detail: str) -> tuple[Result, ...]:
        return tuple(Result(subject.label, file.name, c.id, c.clause, state, detail) for c in cases)

    if subject.gap:
        return every(CaseState.SKIPPED, subject.gap)
    target = engine(subject.engine)
    if isinstance(target, NeedsKernel) and not target.loopback_clients:
        why = (
            f"{target.title} forwards nothing from loopback, where the clients of cases are; `lbgen verify` has others"
        )
        return every(CaseState.SKIPPED, why)
    try:
        with engine_session(file, subject) as found:
            return run_cases(found, cases)
    except EngineError as error:
        skip = all(d.code in _SKIPS for d in error.diagnostics)
        return every(CaseState.SKIPPED if skip else CaseState.FAIL, str(error))


def run_cases(found: EngineSession, cases: Sequence[Case]) -> tuple[Result, ...]:
    """The results of `cases`, in order; single requests several at a time, the others alone."""
    together = [c for c in cases if c.times == 1 and c.script is None]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        results = {c.id: r for c, r in zip(together, pool.map(found.run, together), strict=True)}
    for case in cases:
        if case.id not in results:
            results[case.id] = found.run(case)
    return tuple(results[c.id] for c in cases)


def run(
    files: Sequence[CaseFile],
    over: Sequence[EngineUnderTest],
    *,
    wanted: Callable[[Case], bool] = lambda case: True,
    done: Callable[[tuple[Result, ...]], None] = lambda results: None,
) -> tuple[Result, ...]:
    """All files on all subjects, one engine at a time; `done` gets the results of each file."""
    every: list[Result] = []
    for subject in over:
        for file in files:
            results = run_file(file, subject, wanted=wanted)
            done(results)
            every += results
    return tuple(every)
