"""Checks of placeholders: that there is such a fact where one stands; that no client can choose a redirect's host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.path_conditions import EVERY_PATH, Path, read_path
from lbgen.plan.regex import compile_pattern
from lbgen.plan.values import group_number
from lbgen.plan.written_texts import SHARED, Place, WrittenText, written_texts
from lbgen.regex import Boundary, Chars, Choice, Group, Node, Repeat, Sequence, parse_groups
from lbgen.spec.placeholders import OF_ROUTES, Mention, has_placeholder, split_text, suggest_name
from lbgen.spec.route import Route

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

_SHARED = {Place.PAGE: "an error page", Place.LOGIN: "the address of a login"}
_HOST = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")


def check(context: Context) -> None:
    """LB246 and LB247."""
    identities = _identities(context)
    for text in written_texts(context.model):
        for mention in text.mentions:
            if mention.name.lower().removeprefix("header.") in identities and mention.name.startswith("header."):
                message = f"{{{mention.name}}} is what a client sent, and auth says by that field who the client is"
                context.add("LB247", text.field, message, "endpoints get the field itself: drop the placeholder")
        paths = [] if text.route is None else _paths(context.model.routes[text.route])
        for mention in dict.fromkeys(text.mentions):
            _check(context, text, mention, paths)
        if text.place is Place.REDIRECT:
            _check_authority(context, text, paths)
    for index, route in enumerate(context.model.routes):
        to = route.redirect
        if to is not None and to.prefix is not None and to.host is not None and has_placeholder(to.host):
            hint = "write to: with the whole address"
            context.add("LB247", f"routes[{index}].redirect.prefix", "a prefix beside a host with placeholders", hint)


def _identities(context: Context) -> set[str]:
    """The header fields by which some auth says who a client is."""
    auths = [route.auth for route in context.model.routes if route.auth is not None]
    return {name.lower() for auth in auths for name in auth.identity_headers}


def _paths(route: Route) -> list[Path]:
    return [read_path(match) or EVERY_PATH for match in route.match or ()] or [EVERY_PATH]


def _check(context: Context, text: WrittenText, mention: Mention, paths: list[Path]) -> None:
    name, field = mention.name, text.field
    if text.place in SHARED and (name in OF_ROUTES or name.isdecimal()):
        message = f"{{{name}}} has no value in {_SHARED[text.place]}, which routes share"
        context.add("LB247", field, message, f"write {{path}} or {{uri}}; for the text itself {{{{{name}}}}}")
    elif text.place in SHARED and mention.is_group:
        context.add("LB246", field, f"there is no placeholder {{{name}}} here", suggest_name(name, shared=True))
    elif name == "endpoint" and text.place is not Place.RESPONSE:
        message = "no endpoint is chosen yet where {endpoint} stands"
        context.add("LB247", field, message, "only response_headers may have it")
    elif name == "request_id" and context.model.request_id is False:
        context.add("LB247", field, "{request_id} is empty with request_id: false", "drop one of the two")
    elif mention.is_known:
        return
    elif not mention.is_group or not any(group_number(path, name) for path in paths):
        groups = tuple(group for path in paths if not path.is_text for group in compile_pattern(path.value).groupindex)
        if name.isdecimal():
            hint = f"write path: {{ regex: ... }} with so many ( ); for the text itself {{{{{name}}}}}"
            context.add("LB246", field, f"{{{name}}} is the group {name} of the path, which has none", hint)
        else:
            context.add("LB246", field, f"there is no placeholder {{{name}}}", suggest_name(name, groups))
    elif not all(group_number(path, name) for path in paths):
        message = f"{{{name}}} is a group of the path, and not every match of the route has it"
        context.add("LB247", field, message, "give each match a path with that group, or write two routes")


def _check_authority(context: Context, text: WrittenText, paths: list[Path]) -> None:
    """Groups in the host of a redirect hold characters of one label."""
    if text.field.endswith(".path"):
        return
    authority = text.text.partition("://")[2].partition("/")[0] if text.field.endswith(".to") else text.text
    for part in split_text(authority):
        if not isinstance(part, Mention) or not part.is_group:
            continue
        if "." not in authority.rpartition("}")[2]:
            message = f"a client could choose the domain by {{{part.name}}}"
            context.add("LB247", text.field, message, "write the domain behind it, such as {1}.shop.example")
            continue
        if not all(_holds_label(path, part.name) for path in paths if group_number(path, part.name)):
            message = f"a client could choose the host by {{{part.name}}}, whose group may hold other than letters"
            context.add("LB247", text.field, message, "write the group as ([a-z0-9-]+)")


def _holds_label(path: Path, name: str) -> bool:
    number = group_number(path, name)
    return all(_is_of_labels(each) for each in _find_groups(parse_groups(path.value)) if each.number == number)


def _find_groups(node: Node) -> list[Group]:
    own = [node] if isinstance(node, Group) else []
    match node:
        case Sequence() | Choice():
            return own + [each for part in node.parts for each in _find_groups(part)]
        case Repeat():
            return _find_groups(node.part)
    return own


def _is_of_labels(node: Node) -> bool:
    match node:
        case Chars():
            return node.ascii <= _HOST and not node.beyond
        case Sequence() | Choice():
            return all(map(_is_of_labels, node.parts))
        case Repeat():
            return _is_of_labels(node.part)
        case Boundary():
            return True
