"""Header edits of routes and targets as Envoy's lists of headers to add and to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.engines.document import Data
    from lbgen.plan.model import HeaderEdits

SET = "OVERWRITE_IF_EXISTS_OR_ADD"
APPEND = "APPEND_IF_EXISTS_OR_ADD"
CONTENT_TYPE = "content-type"


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
    if not any(edits):
        return {}
    found = _fields("response", *edits)
    if CONTENT_TYPE in {name for each in edits for name in (*each.remove, *(n for n, _ in (*each.set, *each.add)))}:
        removed, added = merge_edits(*edits)
        for key, kept in (
            ("response_headers_to_remove", [name for name in removed if name != CONTENT_TYPE]),
            ("response_headers_to_add", [each for each in added if _name(each) != CONTENT_TYPE]),
        ):
            found.pop(key, None)
            if kept:
                found[key] = kept
        mutations: list[Data] = [{"remove": name} for name in removed if name == CONTENT_TYPE]
        mutations += [{"append": each} for each in added if _name(each) == CONTENT_TYPE]
        found |= build_late_edits(mutations)
    return found


def read_late_edits(fields: Mapping[str, Data]) -> list[Data]:
    """The late edits in `fields` of a route."""
    said = fields.get("typed_per_filter_config", {})
    own = said.get(CONTENT_TYPE, {}) if isinstance(said, dict) else {}
    mutations = own.get("mutations", {}) if isinstance(own, dict) else {}
    found = mutations.get("response_mutations", []) if isinstance(mutations, dict) else []
    return list(found) if isinstance(found, list) else []


def build_late_edits(mutations: list[Data]) -> dict[str, Data]:
    """The field of a route that configures the filter for late edits."""
    return {"typed_per_filter_config": {CONTENT_TYPE: _per_route(mutations)}}


def build_mutation_filter(name: str, mutations: Sequence[Data], side: str = "request") -> dict[str, Data]:
    """A filter that applies `mutations` to the headers of each request, or of each response."""
    config: Data = {f"{side}_mutations": mutations}
    return extension(name, "filters.http.header_mutation.v3.HeaderMutation", {"mutations": config})


def build_content_type_filter() -> dict[str, Data]:
    """The filter for late edits, off until a route enables it: Envoy sets the Content-Type of its own responses after
    the route's edits."""
    return extension(CONTENT_TYPE, "filters.http.header_mutation.v3.HeaderMutation", disabled=True)


def _name(added: dict[str, Data]) -> Data:
    header = added["header"]
    return header["key"] if isinstance(header, dict) else None


def _per_route(mutations: list[Data]) -> dict[str, Data]:
    return typed(
        "envoy.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
        {"mutations": {"response_mutations": mutations}},
    )


def _fields(side: str, *edits: HeaderEdits) -> dict[str, Data]:
    removed, added = merge_edits(*edits)
    found: dict[str, Data] = {}
    if removed:
        found[f"{side}_headers_to_remove"] = removed
    if added:
        found[f"{side}_headers_to_add"] = added
    return found
