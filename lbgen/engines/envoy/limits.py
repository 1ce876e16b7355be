"""A plan -> the single places where Envoy cannot keep the contract, or only nearly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.escapes import has_boundary, parse
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode, ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Plan, Route, Rule

# Headers that Envoy takes off a request before it looks at routes.
_GONE = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})


def objections(plan: Plan) -> Iterator[Objection]:
    """One objection per place, each place once."""
    seen: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                for objection in _of_rule(rule):
                    key = (objection.field, objection.verdict.note)
                    if key not in seen:
                        seen.add(key)
                        yield objection
    l4 = {rule.route for listener in plan.listeners if listener.mode is Mode.L4 for rule in listener.l4_rules}
    for route in plan.routes:
        if route.name not in l4:
            yield from _of_route(route)


def _of_rule(rule: Rule) -> Iterator[Objection]:
    for header in rule.match.headers:
        place = f"{rule.field}.headers.{header.name}"
        if header.name in _GONE:
            yield Objection(refused("Envoy takes this header off before it looks at routes"), place, Feature.HEADER)
        if header.name == "x-forwarded-proto":
            note = "a request without X-Forwarded-Proto is matched as if it held http"
            yield Objection(approximate(note), place, Feature.HEADER)
    for parameter in rule.match.query:
        if parameter.value.kind is ValueKind.REGEX and has_boundary(parse(parameter.value.value)):
            note = "\\b and \\B see the percent-encoded value, not the decoded one"
            yield Objection(approximate(note), f"{rule.field}.query.{parameter.name}", Feature.QUERY_REGEX)


def _of_route(route: Route) -> Iterator[Objection]:
    if not isinstance(route.action, Forward):
        return
    times = route.action.timeouts
    if times.idle and not 0 < times.response <= times.idle:
        asked = "without limit" if not times.response else f"{times.response} ms"
        note = f"the idle time of {times.idle} ms also ends the wait for a response head ({asked}), with 504"
        shows = {"timeouts.idle.waits": ("status 504", "time")}
        yield Objection(approximate(note, shows), f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
