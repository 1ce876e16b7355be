"""Worker process: verify one engine, where possible in an isolated network; a job in, results out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import Case, CaseFile
from lbgen.conformance.engine_under_test import EngineUnderTest
from lbgen.conformance.expected_difference import escape_target
from lbgen.conformance.http2_client import fetch
from lbgen.conformance.judge import without_default_port
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import Prepared, verdicts_on
from lbgen.conformance.runner import CaseState, EngineSession, Result
from lbgen.conformance.safety.run import judge_safety
from lbgen.conformance.scripts.context import wait_until
from lbgen.conformance.scripts.topology_timeouts import NOTICED
from lbgen.conformance.transport import transport_for, without_verification
from lbgen.conformance.verify.addresses import check_port, l4_pools, restore_port
from lbgen.conformance.verify.cases import Phase
from lbgen.conformance.verify.forward_auth import REFUSES, questions
from lbgen.conformance.verify.jobs import ComparedAnswer, Failed, Finished, FrontTier, Job, JobProgress
from lbgen.conformance.verify.substitute_certificates import WRONG, stand_in_tls
from lbgen.conformance.wait_ready import ServingEngine, wait_ready
from lbgen.diagnostics import LbgenError
from lbgen.plan.model import ClientTimeouts, Forward, Mode, Plan, Protocol, Redirect, Respond, Timeouts
from lbgen.plan.simulate import simulate
from lbgen.runtime.common import certificates
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.network import enter, veth
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import StandInServers, stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn

# Cases at a time: answered at once, waiting for a time, with large bodies, tried again.
QUICK, WAITING, HEAVY, AGAIN = 6, 48, 12, 8
_GOES = 4  # more of them for a case that was only late: the machine may have been busy
_READY_SECONDS = 8.0
_SECONDS = 1.0  # a case may take longer than this
ATTACKS = 500  # hostile requests at most, on each engine: a few seconds
_RULES = ("S1", "S2", "S3", "S4")
# What a proxy says that waited for one of our own endpoints on a busy machine.
_WAITED = 504


def verify_engine(job: Job, report: Callable[[JobProgress], None]) -> Finished:
    """Serve the plan of a job and run its cases. EngineError, LbgenError when the engine cannot be started."""
    with ExitStack() as stack:
        network = None
        if job.isolated:
            enter()
            network = stack.enter_context(veth(job.plan))
        folder = Path(job.folder)
        certificates.use(folder)
        group = stack.enter_context(stand_in_servers(stand_ins(job.plan, folder)))
        handle: ServingEngine
        if job.front is not None:
            handle = _start_behind_front(stack, job, job.front)
        else:
            serve = run_engine(
                job.engine, job.plan, job.binary, accept=("all",), network=network, rendered=job.rendered
            )
            handle = stack.enter_context(serve)
        report(JobProgress(job.name, "listening"))
        done = run_cases(job, handle, group, report)
    report(JobProgress(job.name, "attacking", len(done.results), len(job.cases)))
    return replace(done, results=(*done.results, *safety_results(job)))


def run_cases(
    job: Job, handle: ServingEngine, group: StandInServers, report: Callable[[JobProgress], None]
) -> Finished:
    """The results of a job's cases on an engine that serves its plan, wherever that is, before these endpoints."""
    _answer_questions(group, job.plan)
    wait_ready(job.plan, handle, asked=without_verification)
    subject = EngineUnderTest(job.engine, job.version, job.binary)
    file = CaseFile("topology", job.plan.name, {}, {}, ())
    ready = Prepared(job.plan, job.plan, group.stand_ins, verdicts_on(job.plan, job.engine, job.version))
    metrics = handle.metrics if isinstance(handle, EngineProcess) else str
    session = EngineSession(subject, file, ready, group, handle, strict=False, metrics=metrics)
    _wait_for_bytes(session, job)
    return _Run(session, job, report).every()


class _BehindFront(Struct, frozen=True):
    """Nodes that clients reach through the listener `entry` of another engine."""

    front: EngineProcess
    entry: str
    nodes: tuple[EngineProcess, ...]

    def address(self, listener: str) -> tuple[str, int]:
        return self.front.address(self.entry)

    def access_lines(self) -> list[str]:
        return [line for node in self.nodes for line in node.access_lines()]

    def ensure_alive(self) -> None:
        for each in (self.front, *self.nodes):
            each.ensure_alive()


def _start_behind_front(stack: ExitStack, job: Job, front_tier: FrontTier) -> _BehindFront:
    nodes = [run_engine(job.engine, plan, job.binary, accept=("all",)) for plan in front_tier.replicas]
    handles = tuple(stack.enter_context(node) for node in nodes)
    front = stack.enter_context(run_engine(front_tier.engine, front_tier.plan, front_tier.binary, accept=("all",)))
    return _BehindFront(front, front_tier.listener, handles)


def stand_ins(plan: Plan, folder: Path) -> Iterator[StandIn]:
    """One for each endpoint that is an address, where the plan says it is; those of L4 routes send bytes back. And one
    (`POOL-NUMBER-check`) for each that is checked elsewhere."""
    protocols = l4_pools(plan)
    for pool in plan.pools:
        datagrams = protocols.get(pool.name) is Protocol.UDP
        for number, endpoint in enumerate(pool.endpoints):
            if not endpoint.is_ip:
                continue
            found = StandIn(
                f"{pool.name}-{number}",
                pool.name,
                endpoint.host,
                endpoint.port,
                behaviour=Behaviour("echo" if pool.name in protocols else "json"),
                tls=stand_in_tls(pool, folder),
                proxied=pool.proxy_protocol is not None,
                datagrams=datagrams,
                http=True,
            )
            yield found
            if (port := check_port(pool, endpoint, datagrams=datagrams)) is not None:
                yield replace(found, name=f"{found.name}-check", port=port, behaviour=Behaviour(), datagrams=False)


def _answer_questions(group: StandInServers, plan: Plan, pool: str = "", instead: Behaviour | None = None) -> None:
    """Have services of that pool, or of all, admit whom they are asked about, or do something else `instead`."""
    for asked, every in questions(plan).items():
        for each in group.stand_ins if pool in ("", asked) else ():
            for question in every if each.pool == asked else ():
                group.behave(each.name, instead or question.admits, question.path)


def _only_asked(plan: Plan) -> frozenset[str]:
    """Pools of services to which no route forwards."""
    actions = [route.action for route in plan.routes if isinstance(route.action, Forward)]
    return frozenset(questions(plan)) - {target.pool for action in actions for target in action.targets}


def _wait_for_bytes(session: EngineSession, job: Job) -> None:
    """As `wait_ready`, for L4 listeners: until bytes come back, or it is left to the cases to tell."""
    cases = [x.case for x in job.cases if x.case.script == "bytes_reach" and x.case.params["pools"]]
    wait_until(lambda: all(session.run(case).state is not CaseState.FAIL for case in cases), _READY_SECONDS)


class _Run:
    """The cases of one engine, phase by phase."""

    def __init__(self, session: EngineSession, job: Job, report: Callable[[JobProgress], None]) -> None:
        self.session = session
        self.job = job
        self.report = report
        self.done: dict[str, Result] = {}

    def every(self) -> Finished:
        by_phase: dict[tuple[Phase, str], list[Case]] = {}
        for one in self.job.cases:
            by_phase.setdefault((one.phase, one.pool), []).append(one.case)
        crowded = _crowded(self.job.plan)
        first, calm = (by_phase.pop((phase, ""), []) for phase in (Phase.FIRST, Phase.CALM))
        self._side_by_side(first, 1)
        slow = [case for case in calm if _waits(case)]
        quick = [case for case in calm if not _waits(case)]
        with ThreadPoolExecutor(WAITING) as patient:  # while these wait, the others are asked
            waiting = patient.map(self.session.run, slow)
            self._side_by_side(quick, 2 if crowded else QUICK)
            prints = self._prints(quick)
            self._keep(waiting)
        for phase, pool in sorted(by_phase, key=lambda key: list(Phase).index(key[0])):
            cases = by_phase[phase, pool]
            at_once = {Phase.ALONE: 1, Phase.HEAVY: 1 if crowded else HEAVY}.get(phase, WAITING)
            with self._all_are(phase, pool):
                self._side_by_side(sorted(cases, key=_lasts, reverse=True), at_once)
                self._once_more(cases, min(at_once, AGAIN))
        self._once_more([*first, *calm])
        results = tuple(self.done[one.case.id] for one in self.job.cases)
        return Finished(self.job.name, results, prints)

    @contextmanager
    def _all_are(self, phase: Phase, pool: str) -> Iterator[None]:
        """All endpoints, or those of one pool, do what that phase says."""
        group, folder = self.session.endpoints, Path(self.job.folder)
        alone = _only_asked(self.job.plan)
        named = [
            x for x in group.stand_ins if not x.datagrams and (x.pool == pool or (not pool and x.pool not in alone))
        ]
        chosen = [] if phase is Phase.REFUSING else named
        match phase:
            case Phase.HEAVY:
                changed = [x for x in chosen if x.behaviour.mode == "echo"]
            case Phase.FOREIGN:
                changed = [x for x in chosen if x.tls is not None]
            case _:
                changed = [] if phase is Phase.ALONE else chosen
        for each in changed:
            match phase:
                case Phase.HEAVY | Phase.HUNG:
                    group.behave(each.name, Behaviour("mute" if phase is Phase.HEAVY else "hang"))
                case Phase.FOREIGN if each.tls is not None:
                    certificate, key = (str(folder / f"{WRONG}.{kind}") for kind in ("crt", "key"))
                    group.show(each.name, replace(each.tls, certificate=certificate, key=key))
                case _:
                    group.listen(each.name, "refuse" if phase is Phase.REFUSED else "drop")
        if phase is Phase.REFUSING or (phase is Phase.HUNG and pool):
            _answer_questions(group, self.job.plan, pool, REFUSES if phase is Phase.REFUSING else Behaviour("hang"))
        time.sleep(NOTICED if changed else 0)
        yield
        _answer_questions(group, self.job.plan, pool)
        for each in changed:
            if phase in (Phase.HEAVY, Phase.HUNG):
                group.behave(each.name, each.behaviour)
            else:
                group.listen(each.name, "yes")
        time.sleep(NOTICED if changed else 0)

    def _side_by_side(self, cases: list[Case], at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            self._keep(pool.map(self._run if at_once == 1 else self.session.run, cases))

    def _run(self, case: Case) -> Result:
        """The result of a case that runs alone; endpoints that its fault has taken out are back afterwards."""
        result = self.session.run(case)
        routes = [self.job.plan.route(name) for name in case.routes] if case.steps else []
        targets = [x.pool for route in routes if isinstance(route.action, Forward) for x in route.action.targets]
        pools = [pool for pool in map(self.job.plan.pool, targets) if pool.passive is not None]
        if pools:
            longest = max(pool.passive.eject_for for pool in pools if pool.passive is not None) / 1000
            time.sleep(max(longest, 1) + 0.1)  # some engines count in whole seconds
        return result

    def _keep(self, results: Iterable[Result]) -> None:
        for result in results:
            self.done[result.case] = result
            if len(self.done) % 20 == 0:
                self.report(JobProgress(self.job.name, "asking", len(self.done), len(self.job.cases)))

    def _once_more(self, cases: list[Case], at_once: int = AGAIN) -> None:
        """Repeat cases that were only late, each time with fewer in parallel: the machine may have been busy."""
        for go in range(_GOES):
            late = [case for case in cases if _only_late(self.done[case.id])]
            if not late:
                return
            time.sleep(0.1)
            self._side_by_side(late, max(1, at_once >> go))

    def _prints(self, cases: list[Case]) -> dict[str, ComparedAnswer]:
        """What engines must agree on, from a second look; what is drawn by chance is left out."""

        def look(case: Case) -> ComparedAnswer:
            plan = self.job.plan
            listener = plan.listener(case.request.listener)
            transport = transport_for(listener, case.request, case.transport)
            for _ in range(_GOES):
                answer = fetch(self.session.address(listener.name), case.request, transport=transport)
                if answer.status != _WAITED:
                    break
            account = account_of(answer)
            split = len(simulate(plan, case.request).upstreams) > 1
            pool = "" if account is None or split else str(account["pool"])
            location = without_default_port(restore_port(answer.header("location") or "", self.job.own_ports))
            target = "" if account is None else escape_target(str(account["target"]))
            return answer.status, location, pool, target

        plain = [
            case
            for case in cases
            if case.oracle
            and not case.steps
            and self.done[case.id].state is CaseState.PASS
            and not (outcome := simulate(self.job.plan, case.request)).others  # a choice is left
            and outcome.well_formed
            and case.clause != "4.cors.preflight"  # answered with 200 or 204
        ]
        with ThreadPoolExecutor(QUICK) as pool:
            return {case.id: found for case, found in zip(plain, pool.map(look, plain), strict=True)}


def _crowded(plan: Plan) -> bool:
    """Whether a few requests at a time may be too many."""
    places = [pool.max_per_endpoint for pool in plan.pools]
    places += [route.concurrency.max for route in plan.routes if route.concurrency is not None]
    return any(place is not None and place <= QUICK for place in places)


def _waits(case: Case) -> bool:
    within = case.expect.within_ms
    return case.script is not None or case.send is not None or (within is not None and within[1] > 1000 * _SECONDS / 4)


def _lasts(case: Case) -> float:
    """Milliseconds that it may take, for the longest to begin first."""
    _, high = case.params.get("within_ms", case.expect.within_ms or (0, 0))
    return float(high + case.params.get("early_ms", 0))


def _only_late(result: Result) -> bool:
    """Whether nothing but the time was wrong."""
    return result.state is CaseState.FAIL and bool(result.differences) and all(x.is_late for x in result.differences)


def safety_results(job: Job) -> Iterator[Result]:
    """A result for each rule, or for each breach of it; none where no listener reads requests.

    The engine serves the topology on ports of 127.0.0.1, without limits on how many requests a client may send, to
    endpoints that keep every byte."""
    if job.front is not None or not any(each.mode is Mode.L7 for each in job.plan.listeners):
        return
    if not job.isolated:  # engines side by side would take each other's ports
        why = "hostile requests need a network of their own: run as root, with endpoints that are not on loopback"
        yield from (Result(job.name, "topology", rule, rule, CaseState.SKIPPED, why) for rule in _RULES)
        return
    begun = time.monotonic()
    subject = EngineUnderTest(job.engine, job.version, job.binary)
    report = judge_safety(_without_limits(job.plan), subject, most=ATTACKS)
    seconds = (time.monotonic() - begun) / len(_RULES)
    for rule in _RULES:
        found = [each for each in report.breaches if each.rule == rule]
        for number, each in enumerate(found, 1):
            again = f"python -m lbgen.conformance.safety -e {job.engine}"
            detail = f"{each.attack!r}: {each.detail}"
            yield Result(subject.label, "topology", f"{rule}/{number}", rule, CaseState.FAIL, detail, again, seconds)
        if not found:
            state = CaseState.PASS if report.tried else CaseState.SKIPPED
            yield Result(subject.label, "topology", rule, rule, state, "; ".join(report.not_tried), "", seconds)


def _patient(action: Forward | Redirect | Respond) -> Forward | Redirect | Respond:
    return replace(action, timeouts=Timeouts()) if isinstance(action, Forward) else action


def _without_limits(plan: Plan) -> Plan:
    listeners = (
        replace(x, address="127.0.0.1", max_connections=None, timeouts=ClientTimeouts()) for x in plan.listeners
    )
    routes = (replace(x, rate_limit=None, concurrency=None, action=_patient(x.action)) for x in plan.routes)
    pools = (replace(x, max_per_endpoint=None, queue=None) for x in plan.pools)
    return replace(plan, listeners=tuple(listeners), routes=tuple(routes), pools=tuple(pools))


def main(descriptor: int) -> None:
    """Run the one job that comes over this pipe."""
    with Connection(descriptor) as pipe:
        job: Job = pipe.recv()
        try:
            pipe.send(verify_engine(job, pipe.send))
        except LbgenError as error:
            pipe.send(Failed(job.name, error.diagnostics))
