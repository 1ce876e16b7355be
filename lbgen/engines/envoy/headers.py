"""Header edits of routes and targets as Envoy's lists of headers to add and to remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.view import Contributor, HttpRoute
from lbgen.plan.model import HeaderEdits, Respond

if TYPE_CHECKING:
    from lbgen.engines.document import Data

SET = "OVERWRITE_IF_EXISTS_OR_ADD"
APPEND = "APPEND_IF_EXISTS_OR_ADD"


def escape_format(literal: str) -> str:
    """Free text where Envoy expands `%COMMAND%`."""
    return literal.replace("%", "%%")


def header_option(name: str, value: str, action: str) -> dict[str, Data]:
    """A HeaderValueOption; `value` is in Envoy's format syntax."""
    return {"header": {"key": name, "value": value}, "append_action": action}


class _HeaderState(Struct):
    """The state of a header after some edits: `values` follow the received lines, or replace them."""

    replaced: bool = False
    values: list[str] = field(default_factory=list)


def merge_edits(*edits: HeaderEdits) -> tuple[list[str], list[dict[str, Data]]]:
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
    removed = [name for name, state in states.items() if state.replaced and len(state.values) != 1]
    added: list[dict[str, Data]] = []
    for name, state in states.items():
        single = state.replaced and len(state.values) == 1
        added += [header_option(name, escape_format(value), SET if single else APPEND) for value in state.values]
    return removed, added


def build_request_edits(*edits: HeaderEdits) -> dict[str, Data]:
    """The fields of a route or weighted cluster for these request edits."""
    return _fields("request", *edits) if any(edits) else {}


def build_response_edits(*edits: HeaderEdits) -> dict[str, Data]:
    """The fields of a route for these response edits."""
    return _fields("response", *edits) if any(edits) else {}


def build_mutation_filter(name: str, mutations: Sequence[Data], side: str = "request") -> dict[str, Data]:
    """A filter that applies `mutations` to the headers of each request, or of each response."""
    config: Data = {f"{side}_mutations": mutations}
    return extension(name, "filters.http.header_mutation.v3.HeaderMutation", {"mutations": config})


def _fields(side: str, *edits: HeaderEdits) -> dict[str, Data]:
    removed, added = merge_edits(*edits)
    found: dict[str, Data] = {}
    if removed:
        found[f"{side}_headers_to_remove"] = removed
    if added:
        found[f"{side}_headers_to_add"] = added
    return found


def _route(at: HttpRoute) -> dict[str, Data]:
    """Edits of responses; those of requests are in `routes`, as each target has its own."""
    return {} if isinstance(at.route.action, Respond) else build_response_edits(at.route.response_headers)


HEADERS = Contributor(route=_route)
