"""Rendered files with one thing changed, as a hand might have done it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

import lbgen
from lbgen.conformance.corpus import overlapping_drafts
from lbgen.conformance.topology_diff import compare
from lbgen.conformance.verify.edited_files import NUMBER, line_changes
from lbgen.conformance.verify.time_scaling import Scale, scale_times, times_of
from lbgen.plan.matching import mismatch
from lbgen.plan.model import Forward, Mode, Plan
from lbgen.plan.precedence import host_tables
from lbgen.plan.request import parse_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.rendered import Rendered
    from lbgen.plan.model import Rule

FACTOR = 0.5  # shorter: where two timers guard one time the shorter counts, and a longer one would change nothing


@dataclass(frozen=True)
class Mutant:
    """`name` tells what was changed where."""

    name: str
    files: Rendered


def files_of(plan: Plan, engine: str) -> Rendered:
    return lbgen.render(plan, engine=engine, accept=("all",))


def times(plan: Plan, engine: str) -> Iterator[Mutant]:
    """Every number that is a time of the topology (it changes when the topology's times do), half as long."""
    real, other = files_of(plan, engine), files_of(scale_times(plan, other_times(plan)), engine)
    for change in line_changes(real, other):
        lines = real[change.file].splitlines()
        line, against = lines[change.line - 1], other[change.file].splitlines()[change.line - 1]
        for ours, theirs in zip(NUMBER.finditer(line), NUMBER.finditer(against), strict=True):
            if ours[0] == theirs[0] or _left_out(lines, change.line - 1, ours.start()):
                continue
            value = float(ours[1]) * FACTOR
            text = f"{value:.3f}s" if "." in ours[1] else f"{round(value)}{ours[2] or ''}"
            edited = [*lines]
            edited[change.line - 1] = line[: ours.start()] + text + line[ours.end() :]
            name = f"{change.file}:{change.line}: {edited[change.line - 1].strip()}"
            yield Mutant(name, with_text(real, change.file, "\n".join(edited) + "\n"))


# Halving these changes nothing that a client or an endpoint could see, or nothing that verify asks.
_LEFT_OUT = {
    "http-error status 503": "parts late connects from those refused at once, which half does too",
    "readTimeout:": "Traefik's, for a TLS hello; without TLS its plugin sets the time for the head anew",
    "per_try_idle_timeout:": "Envoy's, for WebSocket handshakes with retries that get no answer: not tried",
    "idle_timeout:": "Envoy's where only failed connections are tried again: the times of single tries end first",
}


def _left_out(lines: list[str], at: int, column: int) -> bool:
    """What is named in `_LEFT_OUT`. And HAProxy's `timeout client` and `timeout server` of TCP sections: `timeout
    tunnel` counts instead as soon as both sides are connected (its manual, "timeout tunnel")."""
    line = lines[at].strip()
    key = lines[at][:column].rstrip().split(" ")[-1]
    if key == "idle_timeout:":
        policy = list(itertools.takewhile(lambda before: "route:" not in before, reversed(lines[: at + 1])))
        return any("retry_on: connect-failure" in before for before in policy)
    if key == "per_try_idle_timeout:":
        return any("exact: websocket" in before for before in lines[max(0, at - 28) : at])
    if key in _LEFT_OUT or line.startswith(tuple(_LEFT_OUT)):
        return True
    section = next((line for line in reversed(lines[:at]) if line.startswith(("frontend ", "backend ", "listen "))), "")
    return section.endswith(" from tcp") and line.split()[:2] in (["timeout", "client"], ["timeout", "server"])


def other_times(plan: Plan) -> Scale:
    """A scale that changes every time of the plan a little."""
    return Scale(2, tuple((time, time + 7 * n) for n, time in enumerate(times_of(plan), 1)))


def retries(plan: Plan, engine: str) -> Iterator[Mutant]:
    """One try less on each route that has some."""
    for route in plan.routes:
        if isinstance(route.action, Forward) and route.action.retries is not None:
            less = replace(route.action.retries, max=route.action.retries.max - 1)
            action = replace(route.action, retries=less if less.max else None)
            routes = tuple(replace(r, action=action) if r is route else r for r in plan.routes)
            yield Mutant(f"{route.name}: one retry less", files_of(replace(plan, routes=routes), engine))


def swaps(plan: Plan, engine: str) -> Iterator[Mutant]:
    """Two rules of different routes, in each other's place, for every pair that one request can fulfil."""
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
        for one, other in itertools.combinations([rules[rank] for rank in sorted(rules)], 2):
            if one.route == other.route or not meet(one, other):
                continue
            swapped = swap(plan, one, other)
            if compare(plan, swapped).requests:
                yield Mutant(f"{one.id} and {other.id} swapped", files_of(swapped, engine))


def meet(one: Rule, other: Rule) -> bool:
    """Whether some request fulfils both: else their order cannot matter."""
    for draft in overlapping_drafts(one, other):
        parsed = parse_request(draft.request("web"))
        if mismatch(one, parsed) is None and mismatch(other, parsed) is None:
            return True
    return False


def swap(plan: Plan, one: Rule, other: Rule) -> Plan:
    def put(rule: Rule) -> Rule:
        return replace(rule, rank={one.rank: other.rank, other.rank: one.rank}.get(rule.rank, rule.rank))

    listeners = []
    for listener in plan.listeners:
        rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
        ranked = sorted(map(put, rules.values()), key=lambda rule: rule.rank)
        listeners.append(replace(listener, hosts=host_tables(ranked)) if rules else listener)
    return replace(plan, listeners=tuple(listeners))


def with_text(rendered: Rendered, name: str, text: str) -> Rendered:
    return rendered.with_files(replace(f, text=text) if f.name == name else f for f in rendered.files)
