"""Texts of engines and frameworks that a topology takes literally: variables in values, placeholders in paths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.checks.context import Context
    from lbgen.spec.match import PathMatch
    from lbgen.spec.route import HeaderEdits, Route

_VARIABLE = re.compile(
    r"\$\{?[a-z][a-z0-9_]+\}?"  # nginx
    r"|%\[[^\]]*\]"  # HAProxy
    r"|%[A-Z][A-Z0-9_]+(?:\([^)]*\))?%"  # Envoy
)
_ADDRESS = re.compile(r"remote_addr|\[src\]|REMOTE_ADDRESS|forwarded_for")
_GROUP = re.compile(r"[$\\][0-9]|\$\{?[a-z][a-z0-9_]+\}?")
_PLACEHOLDER = re.compile(r"(?<=/):[A-Za-z_][A-Za-z0-9_]*(?=/|$)|(?<=/)\*(?=/)")


def check(context: Context) -> None:
    """LB295 and LB296."""
    for index, route in enumerate(context.model.routes):
        field = f"routes[{index}]"
        for place, value in _values(field, route):
            if found := _VARIABLE.search(value):
                address = "X-Forwarded-For has the client's address; "
                hint = f"{address if _ADDRESS.search(found[0]) else ''}write the value itself"
                context.advise("LB295", place, f"{found[0]} is sent as it stands, as no variable is replaced", hint)
        for place, value in _paths(field, route):
            if found := _GROUP.search(value):
                message = f"{found[0]} is part of the path as it stands, as no variable is replaced"
                context.advise(
                    "LB295", place, message, "write the path itself; prefix: replaces what a match begins with"
                )
        for number, match in enumerate(route.match or ()):
            if match.path is not None:
                _placeholder(context, f"{field}.match[{number}].path", match.path)


def _placeholder(context: Context, field: str, path: PathMatch) -> None:
    for kind, value in (("exact", path.exact), ("prefix", path.prefix)):
        if value is None:
            continue
        above = re.fullmatch(r"(/.*?)/?[*]{1,2}", value)
        if above is not None and not _PLACEHOLDER.search(above[1]):
            message = f"{value} matches a path with an asterisk only"
            context.advise("LB296", f"{field}.{kind}", message, f"write prefix: {above[1]}, which covers all below")
        elif found := _PLACEHOLDER.search(value):
            regex = _PLACEHOLDER.sub("[^/]+", value)
            message = f"{found[0]} matches these characters only"
            context.advise("LB296", f"{field}.{kind}", message, f'write regex: "{regex}"')


def _values(field: str, route: Route) -> Iterator[tuple[str, str]]:
    """The values of headers that the route writes, each with its place."""
    yield from _edits(f"{field}.request_headers", route.request_headers)
    yield from _edits(f"{field}.response_headers", route.response_headers)
    for number, target in enumerate(route.forward or ()):
        yield from _edits(f"{field}.forward[{number}].request_headers", target.request_headers)
    if route.respond is not None:
        yield from ((f"{field}.respond.headers.{name}", value) for name, value in route.respond.headers.items())


def _edits(field: str, edits: HeaderEdits | None) -> Iterator[tuple[str, str]]:
    if edits is not None:
        yield from ((f"{field}.set.{name}", value) for name, value in edits.set.items())
        yield from ((f"{field}.add.{name}", value) for name, value in edits.add.items())


def _paths(field: str, route: Route) -> Iterator[tuple[str, str]]:
    """The paths that the route writes, each with its place."""
    for name, action in (("redirect", route.redirect), ("rewrite", route.rewrite)):
        for key in ("path", "prefix"):
            if (value := getattr(action, key, None)) is not None:
                yield f"{field}.{name}.{key}", value
