"""Whether an engine serves as it should: what its own checker reports, and what every route answers to its probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from lbgen.diagnostics import NOWHERE, Diagnostic, Severity
from lbgen.plan.model import Forward, Plan, Protocol
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.ports import LOOPBACK
from lbgen.runtime.common.route_probes import Probe, ask, connect_options, make_probes

CHECK_SECONDS = 30.0  # for up to 1,000 routes


def refused_files(plan: Plan, title: str, problems: Iterable[str]) -> Iterator[Diagnostic]:
    """LB401 for each problem that a checker named; at the field of the topology's file where it names one."""
    for problem in problems:
        field, path = _file_in(plan, problem)
        hint = f"the file is {path}" if path else ""
        yield Diagnostic("LB401", f"{title}: {problem}", plan.span(field), field, hint)


def _file_in(plan: Plan, text: str) -> tuple[str, str]:
    """Field and path of the topology's file that `text` names by its path; the longest path wins; both "" = none."""
    found = [
        (len(path), field, file.source or file.path)
        for field, file in plan.named_files()
        for path in (file.path, file.source or file.path)
        if path in text
    ]
    return max(found, default=(0, "", ""))[1:]


SECONDS = 15.0
_NAME_SECONDS = 3.0


class Late(Struct, frozen=True):
    """A route without the expected response, and what it responded."""

    probe: Probe
    got: str


def wait(
    plan: Plan,
    wanted: tuple[Probe, ...],
    address: Callable[[str], tuple[str, int]],
    *,
    seconds: float = SECONDS,
    answered: Callable[[Probe, int], None] | None = None,
) -> tuple[Late, ...]:
    """Repeat each probe at `address(listener)` until its response is right; returns those that were not when `seconds`
    had gone by without another one becoming right, so that thousands of routes have their time.

    Where endpoints are real a forward is right with any answer that came through, and late with 502, 503 or 504.
    `answered` is called with each probe that became right and how many are left.
    """
    end = time.monotonic() + seconds
    # A name takes a moment to be looked up.
    named = any(not e.is_ip for pool in plan.pools if pool.real for e in pool.endpoints)
    patience = time.monotonic() + min(_NAME_SECONDS if named else 0, seconds)
    left: dict[int, Late] = {i: Late(probe, "nothing") for i, probe in enumerate(wanted)}
    pause = 0.02
    while True:
        for index, late in tuple(left.items()):
            got = ask(late.probe, *address(late.probe.listener))
            if not got:
                del left[index]
                end = time.monotonic() + seconds
                if answered is not None:
                    answered(late.probe, len(left))
            else:
                left[index] = Late(late.probe, got)
            if time.monotonic() > end:
                break
        # Real endpoints that do not answer are a warning, not worth the whole wait.
        now = time.monotonic()
        unreachable = now > patience and all(late.got.startswith("no endpoint") for late in left.values())
        if not left or now > end or unreachable:
            return tuple(left.values())
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def check_routes(
    plan: Plan,
    engine: tuple[str, str],
    address: Callable[[str], tuple[str, int]],
    *,
    seconds: float,
    progress: Callable[[Progress], None],
    ensure_ready: Callable[[], None] = lambda: None,
    resource_hint: Callable[[], str] = str,
    client: str = LOOPBACK,
) -> tuple[Diagnostic, ...]:
    """Wait as `wait` for all routes of `engine` (name, title); returns LB405 for those that answer wrongly or cannot be
    asked. `client`: our address as the engine sees it. `ensure_ready` is called after that, and raises when the engine
    has ended."""
    probes = make_probes(plan, client)
    name, title = engine

    def answered(probe: Probe, left: int) -> None:
        progress(Progress(Step.ANSWERED, name, probe.route, len(probes) - left, len(probes)))

    late = wait(plan, probes, address, seconds=seconds, answered=answered)
    ensure_ready()
    found = diagnostics(late, title, plan, seconds=seconds, resource_hint=resource_hint)
    if not late:
        progress(Progress(Step.READY, name))
    return (*unreachable_routes(plan, probes, title), *found)


def unreachable_routes(plan: Plan, wanted: tuple[Probe, ...], title: str) -> tuple[Diagnostic, ...]:
    """Return LB405 as advice for each route on a listener that no generated request reaches, and which is therefore not
    checked; once for a listener that wants certificates of its clients."""
    asked = {(probe.listener, probe.route) for probe in wanted}
    spans = dict(plan.spans)
    found = []

    def advise(field: str, message: str) -> None:
        message = f"{title}: {message}"
        found.append(Diagnostic("LB405", message, spans.get(field, NOWHERE), field, severity=Severity.ADVICE))

    for listener in plan.listeners:
        if connect_options(listener) is None:
            advise(listener.field, f"nothing on {listener.name} was asked, as that needs a certificate of a client")
            continue
        rules = [rule.route for table in listener.hosts for rule in table.rules]
        for name in dict.fromkeys((*rules, *(rule.route for rule in listener.l4_rules))):
            if (listener.name, name) not in asked:
                action = plan.route(name).action
                targets = action.targets if isinstance(action, Forward) else ()
                if listener.protocol is Protocol.UDP and any(plan.pool(target.pool).real for target in targets):
                    why = "as its own endpoints need not answer a datagram of lbgen's"
                else:
                    why = "as no request for it could be made up"
                advise(plan.route(name).field, f"route {name} on {listener.name} was not asked, {why}")
    return tuple(found)


def diagnostics(
    late: tuple[Late, ...], title: str, plan: Plan, *, seconds: float = SECONDS, resource_hint: Callable[[], str] = str
) -> tuple[Diagnostic, ...]:
    """Return LB405 for each late route: an error with stand-ins, a warning where real endpoints do not respond.
    `resource_hint` returns what the engine lacks; it is called for errors only."""
    spans = dict(plan.spans)
    found = []
    missing = resource_hint() if any(not is_warning(each) for each in late) else ""
    for each in late:
        asked = each.probe.request
        what = f"{asked.method} {asked.target}" if asked else "a datagram" if each.probe.datagrams else "a connection"
        message = f"{title}: route {each.probe.route} on {each.probe.listener} gave {what} {each.got}"
        soft = is_warning(each)
        severity = Severity.WARNING if soft else Severity.ERROR
        hint = "start its endpoints" if soft else "; ".join(filter(None, (f"waited {seconds:g} s", missing)))
        span = spans.get(each.probe.field, NOWHERE)
        found.append(Diagnostic("LB405", message, span, each.probe.field, hint, severity))
    return tuple(found)


def is_warning(late: Late) -> bool:
    """Whether a real endpoint does not respond, which is not an error of the engine."""
    return late.probe.real and late.got.startswith("no endpoint")
