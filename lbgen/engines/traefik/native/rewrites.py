"""Rewrites of paths, and redirects, as Traefik's regular expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import quote_regex
from lbgen.plan.forwarding import DEFAULT_PORTS

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import PathMatch, Redirect, Rewrite

_PERMANENT = (301, 308)


def build_rewrite(rewrite: Rewrite, matched: PathMatch) -> dict[str, Data]:
    """The middleware for the path; empty when it stays."""
    if rewrite.path is not None:
        return {"replacePath": {"path": rewrite.path}}
    if rewrite.prefix is None:
        return {}
    regex, to = _replace_prefix(matched, rewrite.prefix, "${1}")
    return {"replacePathRegex": {"regex": f"^{regex}$", "replacement": to}}


def build_redirect(redirect: Redirect, matched: PathMatch) -> dict[str, Data]:
    """The middleware; the port stays that of the request where neither scheme nor port is given."""
    regex, to, groups = _origin(redirect)
    rest = f"${{{groups + 1}}}"
    if redirect.path is not None:
        path, new = "/[^?]*(.*)", _literal(redirect.path) + rest
    elif redirect.prefix is not None:
        path, new = _replace_prefix(matched, redirect.prefix, rest)
    else:
        path, new = "(/.*)", rest
    data: dict[str, Data] = {"regex": f"^{regex}{path}$", "replacement": to + new}
    if redirect.status in _PERMANENT:
        data["permanent"] = True
    return {"redirectRegex": data}


def _origin(redirect: Redirect) -> tuple[str, str, int]:
    """The regular expression of scheme, host and port, what replaces them, and how many groups that has."""
    keeps_port = redirect.scheme is None and redirect.port is None
    if redirect.host is None and keeps_port:
        return "(https?://[^/]+)", "${1}", 1
    # The expression of each part, whether it is kept, and the new text.
    parts = (
        ("https?", redirect.scheme is None, redirect.scheme or ""),
        ("[^/]+?", redirect.host is None, _literal(redirect.host or "")),
        ("(?::[0-9]+)?", keeps_port, _port(redirect)),
    )
    regex, to, groups = [], [], 0
    for text, kept, new in parts:
        groups += kept
        regex.append(f"({text})" if kept else text)
        to.append(f"${{{groups}}}" if kept else new)
    return f"{regex[0]}://{regex[1]}{regex[2]}", f"{to[0]}://{to[1]}{to[2]}", groups


def _port(redirect: Redirect) -> str:
    default = DEFAULT_PORTS.get(redirect.scheme or "")
    return "" if redirect.port in (None, default) else f":{redirect.port}"


def _replace_prefix(matched: PathMatch, prefix: str, rest: str) -> tuple[str, str]:
    """The regular expression of what begins with the match, and what replaces it; `rest` is the group behind it."""
    old, new = matched.value.rstrip("/"), prefix.rstrip("/")
    if old and new:
        return f"{quote_regex(old)}(.*)", _literal(new) + rest
    return f"{quote_regex(old)}/?(.*)", f"{_literal(new)}/{rest}"


def _literal(text: str) -> str:
    """A text in a replacement."""
    return text.replace("$", "$$")
