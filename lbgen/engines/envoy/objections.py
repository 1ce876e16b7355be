"""Verdicts on single places of a plan that Envoy refuses, or serves in its own way: those of features, and of rules."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.envoy.features import FEATURES
from lbgen.engines.escapes import has_boundary, parse
from lbgen.plan.features import Feature
from lbgen.plan.model import Plan, Rule, ValueKind

# Headers that Envoy removes from a request before it matches routes.
_REMOVED_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})


def find_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """One objection per place, each place once."""
    seen: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                for objection in _rule_objections(rule) if rule.match.headers or rule.match.query else ():
                    key = (objection.field, objection.verdict.note)
                    if key not in seen:
                        seen.add(key)
                        yield objection
    for each in FEATURES:
        if each.objections:
            yield from each.objections(plan, version)


def _rule_objections(rule: Rule) -> Iterator[Objection]:
    for header in rule.match.headers:
        place = f"{rule.field}.headers.{header.name}"
        if header.name in _REMOVED_HEADERS:
            yield Objection(refused("Envoy removes this header before it matches routes"), place, Feature.HEADER)
    for parameter in rule.match.query:
        if parameter.value.kind is ValueKind.REGEX and has_boundary(parse(parameter.value.value)):
            note = "\\b and \\B see the percent-encoded value, not the decoded one"
            shows = {"match.query.regex.boundary": ("accepted", "status 404")}
            yield Objection(habit(note, shows), f"{rule.field}.query.{parameter.name}", Feature.QUERY_REGEX)
