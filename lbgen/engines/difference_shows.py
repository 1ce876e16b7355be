"""Conditions for `Verdict.when`: whether a request of a plan can show a difference, by the field that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.plan.model import Listener, Mode, Plan
from lbgen.plan.route import Forward, HeaderEdits, Route
from lbgen.plan.rules import Rule


def where_lines_remain(plan: Plan, field: str) -> bool:
    """Whether a header that a route adds a line to may have other lines: those of its sender, or one that it sets."""
    routes = _routes_of(plan, field)
    edits = [each.request_headers if ".request_headers" in field else each.response_headers for each in routes]
    return not edits or any(map(_adds_to_lines, edits))


def where_static_lines_remain(plan: Plan, field: str) -> bool:
    """The same, for an engine that adds lines only where some value of the edits has placeholders."""
    routes = _routes_of(plan, field)
    edits = [each.request_headers if ".request_headers" in field else each.response_headers for each in routes]
    return not edits or any(_adds_to_lines(each) and not each.is_dynamic for each in edits)


def where_no_rule_may_match(plan: Plan, field: str) -> bool:
    """Whether a request to the listener may meet no rule, for its host or its path."""
    tables = [table for listener in _listeners_of(plan, field) for table in listener.hosts]
    whole = all(table.rules and table.rules[-1].match.covers_all for table in tables)
    return not whole or not any(table.host is None for table in tables)


def where_bodies_are_forwarded(plan: Plan, field: str) -> bool:
    """Whether a route of the listener forwards."""
    rules = (rule for listener in _listeners_of(plan, field) for rule in _rules(listener))
    return any(isinstance(plan.route(rule.route).action, Forward) for rule in rules)


def where_one_way_is_buffered(plan: Plan, field: str) -> bool:
    """Whether a route reads either requests or responses whole, and sends the others on as they come."""
    actions = [route.action for route in _routes_of(plan, field) or plan.routes]
    ways = [action.buffering for action in actions if isinstance(action, Forward)]
    return any(way.request is not bool(way.response) for way in ways)


def _adds_to_lines(edits: HeaderEdits) -> bool:
    added = [name for name, _ in edits.add]
    alone = set(edits.remove) - {name for name, _ in edits.set}
    return len(set(added)) < len(added) or not set(added) <= alone


def _rules(listener: Listener) -> Iterator[Rule]:
    return (rule for table in listener.hosts for rule in table.rules)


def _is_inside(field: str, place: str) -> bool:
    return field == place or field.startswith(f"{place}.")


def _routes_of(plan: Plan, field: str) -> list[Route]:
    return [route for route in plan.routes if _is_inside(field, route.field)]


def _listeners_of(plan: Plan, field: str) -> list[Listener]:
    """The listener whose field it is; all of L7 where the field is a default for all."""
    own = [each for each in plan.listeners if _is_inside(field, each.field)]
    return own or [each for each in plan.listeners if each.mode is Mode.L7]
