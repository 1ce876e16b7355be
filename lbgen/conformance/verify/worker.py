"""Worker process: verify one engine, where possible in an isolated network; a job in, results out."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lbgen.conformance.case import Case, CaseFile
from lbgen.conformance.difference import LATE
from lbgen.conformance.engine_under_test import EngineUnderTest
from lbgen.conformance.expected_difference import escape_target
from lbgen.conformance.http2_client import fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import Prepared, verdicts_on
from lbgen.conformance.runner import CaseState, EngineSession, Result
from lbgen.conformance.scripts import SCRIPTS
from lbgen.conformance.scripts.context import ScriptContext
from lbgen.conformance.scripts.topology_timeouts import NOTICED
from lbgen.conformance.transport import transport_for, without_verification
from lbgen.conformance.verify.cases import Phase
from lbgen.conformance.verify.loopback import restore_port
from lbgen.conformance.verify.messages import ComparedAnswer, Failed, Finished, FrontTier, Job, JobProgress
from lbgen.conformance.verify.own_addresses import check_port, l4_pools
from lbgen.conformance.verify.safety import safety_results
from lbgen.conformance.verify.substitute_certificates import WRONG, stand_in_tls
from lbgen.conformance.wait_ready import ServingEngine, wait_ready
from lbgen.diagnostics import LbgenError
from lbgen.plan.model import Forward, Plan, Protocol
from lbgen.plan.simulate import simulate
from lbgen.records import replace
from lbgen.runtime.common import certificates
from lbgen.runtime.local.network import enter, veth
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import StandInServers, stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn

if TYPE_CHECKING:
    from lbgen.runtime.local.engine_process import EngineProcess

# Cases at a time: answered at once, waiting for a time, with large bodies, tried again.
QUICK, WAITING, HEAVY, AGAIN = 6, 48, 12, 8
_GOES = 4  # more of them for a case that was only late: the machine may have been busy
_READY_SECONDS = 8.0
_SECONDS = 1.0  # a case may take longer than this
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
        wait_ready(job.plan, handle, asked=without_verification)
        _settle_bytes(job, handle, group)
        subject = EngineUnderTest(job.engine, job.version, job.binary)
        file = CaseFile("topology", job.plan.name, {}, {}, ())
        ready = Prepared(job.plan, job.plan, group.stand_ins, verdicts_on(job.plan, job.engine, job.version))
        done = _Run(EngineSession(subject, file, ready, group, handle, strict=False), job, report).every()
    report(JobProgress(job.name, "attacking", len(done.results), len(job.cases)))
    return replace(done, results=(*done.results, *safety_results(job)))


@dataclass(frozen=True, slots=True)
class _BehindFront:
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


def _settle_bytes(job: Job, handle: ServingEngine, group: StandInServers) -> None:
    """As `wait_ready`, for L4 listeners: until bytes come back, or it is left to the cases to tell."""
    end = time.monotonic() + _READY_SECONDS
    for case in (one.case for one in job.cases if one.case.script == "bytes_reach" and one.case.params["pools"]):
        while time.monotonic() < end:
            at = {x.name: handle.address(x.name) for x in job.plan.listeners}
            ctx = ScriptContext(at, group, job.plan, list, case.params)
            try:
                if not list(SCRIPTS["bytes_reach"](ctx)):
                    break
            except OSError:
                pass  # it is not there yet
            time.sleep(0.1)


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
        calm = by_phase.pop((Phase.CALM, ""), [])
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
        self._once_more(calm)
        results = tuple(self.done[one.case.id] for one in self.job.cases)
        return Finished(self.job.name, results, prints)

    @contextmanager
    def _all_are(self, phase: Phase, pool: str) -> Iterator[None]:
        """All endpoints, or those of one pool, do what that phase says."""
        group, folder = self.session.endpoints, Path(self.job.folder)
        chosen = [x for x in group.stand_ins if pool in ("", x.pool) and not x.datagrams]
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
        time.sleep(NOTICED if changed else 0)
        yield
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
            location = restore_port(answer.header("location") or "", self.job.own_ports)
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
    return result.state is CaseState.FAIL and bool(result.kinds) and LATE.issuperset(result.kinds)


def main(descriptors: list[int]) -> None:
    """A process for each of these pipes, which runs the one job that comes over it; returns once all have ended.

    Fork is safe here: there is one thread."""
    gc.freeze()
    children = []
    for descriptor in descriptors:
        child = os.fork()
        if not child:
            for other in descriptors:
                if other != descriptor:
                    os.close(other)
            _served(descriptor)
        children.append(child)
    for descriptor in descriptors:
        os.close(descriptor)
    for child in children:
        os.waitpid(child, 0)


def _served(descriptor: int) -> NoReturn:
    code = 1
    try:
        with Connection(descriptor) as pipe:
            job: Job = pipe.recv()
            try:
                pipe.send(verify_engine(job, pipe.send))
            except LbgenError as error:
                pipe.send(Failed(job.name, error.diagnostics))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
