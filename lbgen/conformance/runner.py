"""Case files and engines into results: each file's topology served by a real engine, each case judged."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.conformance import judge
from lbgen.conformance.corpus import corpus
from lbgen.conformance.prepare import Prepared, plan_of, prepared
from lbgen.conformance.probe import Answer, Stream, ask, curl, exchange, shake
from lbgen.conformance.scripts import SCRIPTS
from lbgen.diagnostics import EngineError
from lbgen.engines.api import engine
from lbgen.plan.simulate import simulate
from lbgen.runtime.endpoints import Endpoints, endpoints
from lbgen.runtime.local.network import network
from lbgen.runtime.local.process import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.conformance.case import Case, CaseFile, Expect
    from lbgen.conformance.subject import Subject
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.network import Network
    from lbgen.runtime.local.process import Handle

_PARALLEL = 6  # cases of one engine at a time, so that waiting for timeouts overlaps
_READY_SECONDS = 8.0
# No binary, no root: the engine could not be tried at all.
_SKIPS = frozenset({"LB402", "LB407"})


class State(StrEnum):
    """`approximate`: differs, and the engine's verdict says so. `refused`: the engine's verdict refuses what the case
    needs. `skipped`: not run here, a gap and not a pass."""

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    APPROXIMATE = "approximate"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one case on one engine. `again` is a curl line or the raw bytes; `seconds` the time it took."""

    subject: str
    file: str
    case: str
    clause: str
    state: State
    detail: str = ""
    again: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Bench:
    """An engine that serves a file's topology, with its stand-ins."""

    subject: Subject
    file: CaseFile
    ready: Prepared
    endpoints: Endpoints
    handle: Handle | None

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener answers ("" = the first)."""
        name = listener or self.ready.whole.listeners[0].name
        if self.handle is not None and self.ready.served is not None:
            return self.handle.address(name)
        raise KeyError(name)

    def run(self, case: Case) -> Result:
        """Judge one case."""
        begun = time.monotonic()
        state, detail, again = self._run(case)
        seconds = time.monotonic() - begun
        return Result(self.subject.label, self.file.name, case.id, case.clause, state, detail, again, seconds)

    def _run(self, case: Case) -> tuple[State, str, str]:
        plan = self.ready.whole
        case = replace(case, expect=placed(case.expect, plan))
        listener = case.request.listener or plan.listeners[0].name
        verdicts = self.ready.verdicts
        if listener in verdicts.listeners:
            return State.REFUSED, verdicts.listeners[listener], ""
        if self.ready.served is None:
            return State.REFUSED, next(iter(verdicts.routes.values()), "nothing is left to serve"), ""
        needed = self._routes(case, listener)
        for name in needed & verdicts.routes.keys():
            return State.REFUSED, verdicts.routes[name], ""
        address = self.address(listener)
        again = curl(address, case.request)
        if case.raw is not None or case.tcp is not None:
            again = f"{address[0]}:{address[1]} <- {(case.raw if case.tcp is None else case.tcp)!r}"
        elif case.script is not None:
            again = f"script {case.script}"
        found = list(self._differences(case, address))
        if not found:
            return State.PASS, "", again
        near = [n for n in verdicts.near if n.feature in case.features and n.route in needed | {""}]
        if near:
            state = State.REFUSED if any(n.refused for n in near) else State.APPROXIMATE
            return state, "; ".join([*(n.note for n in near), *found]), again
        return State.FAIL, "; ".join(found), again

    def _routes(self, case: Case, listener: str) -> set[str]:
        plan = self.ready.whole
        if case.oracle:
            route = simulate(plan, case.request).route
            return set() if route is None else {route}
        rules = plan.listener(listener).l4_rules
        if rules:
            return {rule.route for rule in rules}
        return {route.name for route in plan.routes} if case.script is not None else set()

    def _differences(self, case: Case, address: tuple[str, int]) -> Iterator[str]:
        plan = self.ready.whole
        if case.script is not None:
            served = self.ready.served
            names = [x.name for x in served.listeners] if served is not None else []
            try:
                yield from SCRIPTS[case.script]({name: self.address(name) for name in names}, self.endpoints)
            except OSError as error:
                yield f"connection failed: {error}"
        elif case.tcp is not None:
            yield from _tcp(case, address)
        elif case.times > 1:
            yield from _many(case, address, plan)
        elif case.raw is not None:
            yield from judge.raw_differences(case, exchange(address, case.raw, timeout=case.timeout))
        elif case.websocket is not None:
            outcome = simulate(plan, case.request)
            answer, echoes = shake(address, case.request, case.websocket)
            yield from judge.differences(case, outcome, answer)
            if echoes != case.websocket:
                yield f"echoes {echoes}, expected {case.websocket}"
        else:
            outcome = simulate(plan, case.request)
            yield from judge.contradictions(case.expect, outcome)
            yield from judge.differences(case, outcome, ask(address, case.request, timeout=case.timeout))


def placed(expect: Expect, plan: Plan) -> Expect:
    """`{listener}` in a case's texts stands for that listener's port."""

    def fill(text: str) -> str:
        for listener in plan.listeners:
            text = text.replace(f"{{{listener.name}}}", str(listener.port))
        return text

    sends = {n: fill(v) if isinstance(v, str) else v for n, v in expect.sends.items()}
    location = fill(expect.location) if expect.location is not None else None
    return replace(expect, sends=sends, location=location)


def _tcp(case: Case, address: tuple[str, int]) -> Iterator[str]:
    assert case.tcp is not None  # noqa: S101  # the caller asked
    try:
        with Stream(address, timeout=case.timeout) as stream:
            stream.send(case.tcp)
            if stream.end == "open":
                stream.shut()
            got = stream.rest()
            took = (time.monotonic() - stream.begun) * 1000
            end = stream.end
    except ConnectionRefusedError:  # an engine in the kernel hands the endpoint's refusal on
        got, took, end = b"", 0.0, "reset"
    except OSError as error:
        yield f"cannot connect: {error}"
        return
    want = (case.expect.receives or "").encode("latin-1")
    if got != want:
        yield f"received {got!r}, expected {want!r}"
    if end == "open":
        yield "the connection stays open"
    if case.expect.within_ms is not None and not case.expect.within_ms[0] <= took <= case.expect.within_ms[1]:
        yield f"took {took:.0f} ms, expected {case.expect.within_ms[0]} to {case.expect.within_ms[1]}"


def _many(case: Case, address: tuple[str, int], plan: Plan) -> Iterator[str]:
    counts: Counter[str] = Counter()
    homes: dict[str, set[str]] = {}
    for number in range(case.times):
        client = case.request.client if case.clients == 1 else f"127.0.1.{number % case.clients + 1}"
        request = replace(case.request, client=client)
        answer: Answer
        if case.raw is not None:
            answer = exchange(address, case.raw, client=client)
            found = list(judge.raw_differences(case, answer))
        else:
            answer = ask(address, request)
            found = list(judge.differences(replace(case, request=request), simulate(plan, request), answer))
        if found:
            yield f"request {number + 1} of {case.times}: {'; '.join(found)}"
            return
        told = judge.account_of(answer)
        if told is None:
            yield f"request {number + 1} of {case.times}: no endpoint answered (status {answer.status})"
            return
        counts.update((told["name"], told["pool"]) if told["name"] != told["pool"] else (told["name"],))
        homes.setdefault(client, set()).add(told["name"])
    for name, (low, high) in case.expect.share.items():
        if not low <= counts[name] <= high:
            yield f"{name} got {counts[name]} of {case.times}, expected {low} to {high}; all: {dict(counts)}"
    if case.expect.sticky and (moved := {c: sorted(h) for c, h in homes.items() if len(h) > 1}):
        yield f"clients that did not stay: {moved}"


@contextmanager
def bench(file: CaseFile, subject: Subject) -> Iterator[Bench]:
    """Serve `file` with `subject`; EngineError when it cannot be started."""
    assert subject.binary is not None  # noqa: S101  # a gap is never served
    with ExitStack() as stack:
        cable: Network | None = None
        if engine(subject.engine).process(plan_of(file.topology), subject.binary, Path("/")).kernel:
            cable = stack.enter_context(network())
        host = cable.host if cable is not None else "127.0.0.1"
        ready = prepared(file, subject.engine, subject.version, host)
        group = stack.enter_context(endpoints(ready.stand_ins))
        handle = None
        if ready.served is not None:
            serve = running(subject.engine, ready.served, subject.binary, accept=("all",), network=cable)
            handle = stack.enter_context(serve)
            settle(ready.served, handle)
        yield Bench(subject, file, ready, group, handle)


def settle(plan: Plan, handle: Handle, seconds: float = _READY_SECONDS) -> None:
    """Wait until each L7 listener answers a request as the oracle says: some engines listen before they know their
    routes. After `seconds` it is left to the cases to tell what is wrong."""
    waiting = {x.name for x in plan.listeners}
    deadline = time.monotonic() + seconds
    for request in corpus(plan):
        outcome = simulate(plan, request)
        if request.listener not in waiting or outcome.route is None:
            continue
        waiting.discard(request.listener)
        while time.monotonic() < deadline:
            answer = ask(handle.address(request.listener), request, timeout=2)
            if answer.status == outcome.status or judge.account_of(answer) is not None:
                break
            time.sleep(0.1)


def run_file(
    file: CaseFile, subject: Subject, *, wanted: Callable[[Case], bool] = lambda case: True
) -> tuple[Result, ...]:
    """Every wanted case of `file` on `subject`, in order."""
    cases = [case for case in file.cases if wanted(case)]
    if not cases:
        return ()

    def every(state: State, detail: str) -> tuple[Result, ...]:
        return tuple(Result(subject.label, file.name, c.id, c.clause, state, detail) for c in cases)

    if subject.binary is None:
        return every(State.SKIPPED, subject.gap)
    try:
        with bench(file, subject) as found:
            return run_cases(found, cases)
    except EngineError as error:
        skip = all(d.code in _SKIPS for d in error.diagnostics)
        return every(State.SKIPPED if skip else State.FAIL, str(error))


def run_cases(found: Bench, cases: Sequence[Case]) -> tuple[Result, ...]:
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
    over: Sequence[Subject],
    *,
    wanted: Callable[[Case], bool] = lambda case: True,
    done: Callable[[tuple[Result, ...]], None] = lambda results: None,
) -> tuple[Result, ...]:
    """All files on all subjects, one engine at a time; `done` hears of each finished file."""
    every: list[Result] = []
    for subject in over:
        for file in files:
            results = run_file(file, subject, wanted=wanted)
            done(results)
            every += results
    return tuple(every)
