"""Header edits of routes and targets as Envoy's lists of headers to add and to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.engines.envoy.mutations import APPEND, SET, header_option
from lbgen.engines.envoy.values import format_value, is_optional
from lbgen.engines.envoy.view import Contributor, HttpRoute
from lbgen.plan.model import HeaderEdits, Respond
from lbgen.plan.values import Value

if TYPE_CHECKING:
    from lbgen.engines.document import Data


class _HeaderState(Struct):
    """The state of a header after some edits: `values` follow the received lines, or replace them."""

    replaced: bool = False
    values: list[Value] = field(default_factory=list)


def merge_edits(at: HttpRoute, side: str, *edits: HeaderEdits) -> tuple[list[str], list[dict[str, Data]]]:
    """The net effect of `edits`, one after the other, as (names to remove, headers to add).

    Envoy applies a target's edits before its route's, and in each all removals first, so the effect is computed here,
    per header.
    """
    if not any(edits):
        return [], []
    states: dict[str, _HeaderState] = {}
    for each in edits:
        for name in each.remove:
            states[name] = _HeaderState(replaced=True)
        for name, value in each.set:
            states[name] = _HeaderState(replaced=True, values=[value])
        for name, value in each.add:
            states.setdefault(name, _HeaderState()).values.append(value)
    removed: list[str] = []
    added: list[dict[str, Data]] = []
    for name, state in states.items():
        # Envoy passes over an empty value, and what it should have replaced would stay.
        single = state.replaced and len(state.values) == 1 and not is_optional(at, state.values[0])
        if state.replaced and not single:
            removed.append(name)
        for value in state.values:
            text = format_value(at, value, response=side == "response")
            if text:
                added.append(header_option(name, text, SET if single else APPEND))
    return removed, added


def build_request_edits(at: HttpRoute, *edits: HeaderEdits) -> dict[str, Data]:
    """The fields of a route or weighted cluster for these request edits."""
    return _fields(at, "request", *edits) if any(edits) else {}


def build_response_edits(at: HttpRoute, *edits: HeaderEdits) -> dict[str, Data]:
    """The fields of a route for these response edits."""
    return _fields(at, "response", *edits) if any(edits) else {}


def _fields(at: HttpRoute, side: str, *edits: HeaderEdits) -> dict[str, Data]:
    removed, added = merge_edits(at, side, *edits)
    found: dict[str, Data] = {}
    if removed:
        found[f"{side}_headers_to_remove"] = removed
    if added:
        found[f"{side}_headers_to_add"] = added
    return found


def _route(at: HttpRoute) -> dict[str, Data]:
    """Edits of responses; those of requests are in `routes`, as each target has its own."""
    return {} if isinstance(at.route.action, Respond) else build_response_edits(at, at.route.response_headers)


HEADERS = Contributor(route=_route)
