"""Rewrites of paths as Traefik's regular expressions; redirects and responses, which the plugin gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.error_pages import LITERAL
from lbgen.engines.traefik.matching import quote_regex
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.values import path_pattern, write_parts
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.forwarding import DEFAULT_PORTS, redirect_value
from lbgen.plan.model import Listener, Redirect, Respond, Rewrite
from lbgen.plan.path_conditions import ExactPath, Path
from lbgen.plan.values import Template, Value

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def build_rewrite(rewrite: Rewrite, matched: Path) -> dict[str, Data]:
    """The middleware for the path; empty when it stays."""
    if rewrite.path is not None:
        return {"replacePath": {"path": rewrite.path}}
    if rewrite.prefix is None:
        return {}
    if isinstance(matched, ExactPath):
        return {"replacePath": {"path": rewrite.prefix.rstrip("/") or "/"}}
    regex, to = _replace_prefix(matched, rewrite.prefix, "${1}")
    return {"replacePathRegex": {"regex": f"^{regex}$", "replacement": to}}


def build_redirect(redirect: Redirect, matched: Path, listener: Listener, route: str) -> dict[str, Data]:
    """The plugin's redirect: Traefik's own choose the status by the method, and keep the port of the request."""
    if (address := redirect_value(redirect, route, listener)) is not None:
        to = {"to": write_parts(address, matched, route, listener), **path_pattern(matched, address, key="pattern")}
        return use_plugin("redirect", {"status": redirect.status, **to})
    scheme = redirect.scheme or listener.scheme
    default = DEFAULT_PORTS[scheme]
    port = redirect.port or (default if redirect.scheme else listener.client_port)
    data: dict[str, Data] = {"status": redirect.status, "scheme": scheme}
    if redirect.host is not None:
        data["host"] = str(redirect.host)
    if port != default:
        data["port"] = f":{port}"
    if redirect.path is not None:
        data |= {"path": str(redirect.path), "whole": True}
    elif redirect.prefix is not None and isinstance(matched, ExactPath):
        data |= {"path": redirect.prefix.rstrip("/") or "/", "whole": True}
    elif redirect.prefix is not None:
        data |= {"path": redirect.prefix.rstrip("/"), "strip": matched.value.rstrip("/")}
    return use_plugin("redirect", data)


def build_respond(respond: Respond, at: HttpRoute) -> dict[str, Data]:
    """The plugin's answer."""
    answer: dict[str, Data] = {"status": respond.status}

    def write(value: Value) -> list[Data]:
        return write_parts(value, at.matched, at.route.name, at.listener)

    if isinstance(respond.body, Template):
        answer["bodyParts"] = write(respond.body)
    elif respond.body:
        answer["body"] = respond.body
    mark = [(LITERAL, "1")] if at.listener.error_pages or at.route.error_pages else []
    if fixed := [*((name, value) for name, value in respond.headers if isinstance(value, str)), *mark]:
        answer["headers"] = dict(fixed)
    if made := [(name, value) for name, value in respond.headers if isinstance(value, Template)]:
        answer["edits"] = [{"name": name, "value": write(value)} for name, value in made]
    return use_plugin("respond", answer | path_pattern(at.matched, *respond.values()))


def _replace_prefix(matched: Path, prefix: str, rest: str) -> tuple[str, str]:
    """The regular expression of what begins with the match, and what replaces it; `rest` is the group behind it."""
    old, new = matched.value.rstrip("/"), prefix.rstrip("/")
    if old and new:
        return f"{quote_regex(old)}(.*)", _literal(new) + rest
    return f"{quote_regex(old)}/?(.*)", f"{_literal(new)}/{rest}"


def _literal(text: str) -> str:
    """A text in a replacement."""
    return text.replace("$", "$$")


def _rewrites(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.forward is not None and at.forward.rewrite is not None:
        yield "rewrite", build_rewrite(at.forward.rewrite, at.matched)


def _answers(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    match at.route.action:
        case Redirect() as redirect:
            yield "redirect", build_redirect(redirect, at.matched, at.listener, at.route.name)
        case Respond() as respond:
            yield "respond", build_respond(respond, at)
        case _:
            return


REWRITES = Contributor(middlewares=_rewrites)
ANSWERS = Contributor(middlewares=_answers, answers=True)
