"""Verdicts on single places of a plan that Envoy refuses, or serves in its own way: those of features, and of rules."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.conditions import refusal
from lbgen.engines.envoy.features import FEATURES as CONTRIBUTORS
from lbgen.engines.envoy.matching import CONDITIONS
from lbgen.engines.escapes import has_boundary, parse
from lbgen.plan.conditions import FEATURES, Header, Query, Regex
from lbgen.plan.model import Plan, Rule

# Headers that Envoy removes from a request before it matches routes.
_REMOVED_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})


def find_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """One objection per place, each place once."""
    seen: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                for objection in _rule_objections(rule) if rule.match.conditions else ():
                    key = (objection.field, objection.verdict.note)
                    if key not in seen:
                        seen.add(key)
                        yield objection
    for each in CONTRIBUTORS:
        if each.objections:
            yield from each.objections(plan, version)


def _rule_objections(rule: Rule) -> Iterator[Objection]:
    for each in rule.match.conditions:
        feature, place = FEATURES[each.kind], f"{rule.field}.{each.field}"
        if isinstance(each.subject, Header) and each.subject.name in _REMOVED_HEADERS:
            yield Objection(refused("Envoy removes this header before it matches routes"), place, feature)
        if why := refusal(CONDITIONS, each):
            yield Objection(refused(why), place, feature)
        operator = each.operator
        if isinstance(each.subject, Query) and isinstance(operator, Regex) and has_boundary(parse(operator.value)):
            note = "\\b and \\B see the percent-encoded value, not the decoded one"
            shows = {"match.query.regex.boundary": ("accepted", "status 404")}
            yield Objection(habit(note, shows), place, feature)
