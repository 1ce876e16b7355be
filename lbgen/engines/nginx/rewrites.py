"""Path rewrites: maps over the raw target that replace its path or the matched prefix; addresses of redirects.

nginx's own rewriting decodes the path and encodes it differently. Every value starts with a slash, so that it cannot
extend the address it is appended to.
"""

from __future__ import annotations

from lbgen.engines import escapes
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.paths import target_variable
from lbgen.engines.nginx.statements import Entry, Text
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.values import write_value
from lbgen.engines.nginx.view import HttpRoute
from lbgen.engines.text import Atom, Literal
from lbgen.plan.forwarding import redirect_value
from lbgen.plan.model import Redirect, Rewrite
from lbgen.plan.path_conditions import PrefixPath

_TAIL = inline("tail")
_PORTS = {"http": 80, "https": 443}


def rewritten_target(at: HttpRoute, rewrite: Rewrite | Redirect | None) -> str:
    """The variable with the target that the endpoint gets, or that a redirect leads to."""
    target = target_variable(at.listener)
    if rewrite is None or (rewrite.path is None and rewrite.prefix is None):
        return target
    if rewrite.path is not None:
        return _with_path(at, str(rewrite.path), target)
    return _with_prefix(at, rewrite.prefix or "/", target)


def redirect_address(at: HttpRoute, action: Redirect) -> Text:
    """The address that a redirect leads to."""
    if (value := redirect_value(action, at.rule.route, at.listener)) is not None:
        return write_value(at, value)
    scheme = action.scheme or at.listener.scheme
    default = _PORTS[scheme]
    port = action.port or (default if action.scheme else at.listener.client_port)
    host: str | Atom = str(action.host) if action.host else inline("host")
    authority: list[str | Atom] = [f"{scheme}://", host, "" if port == default else f":{port}"]
    return at.on.definitions.text(*authority, inline(rewritten_target(at, action)))


def _with_path(at: HttpRoute, path: str, target: str) -> str:
    """The variable with `path` and the query of the variable `target`."""
    return _variable(at, ("", path, target), path, _entry(at, r"/[^?]*(?<tail>\?.*)", path))


def _with_prefix(at: HttpRoute, prefix: str, target: str) -> str:
    """The variable with the target whose matched prefix, or exact path, is replaced; never empty or `//`."""
    matched, new = at.rule.match.path, prefix.rstrip("/")
    if not isinstance(matched, PrefixPath):
        return _with_path(at, new or "/", target)
    start = escapes.path_literal(matched.value.rstrip("/"))
    key = (f"{start}/", new, target)
    below = _entry(at, f"{start}(?<tail>/.*)", new)
    if not start:
        return _variable(at, key, new or "/", below)
    rest = _entry(at, f"{start}(?<tail>.*)", new or "/")
    return _variable(at, key, new or "/", *((rest,) if new else (below, rest)))


def _entry(at: HttpRoute, regex: str, new: str) -> Entry:
    return Entry(Literal(f"^{regex}$", "regex"), at.on.definitions.text(new, _TAIL))


def _variable(at: HttpRoute, key: tuple[str, str, str], default: str, *entries: Entry) -> str:
    definitions = at.on.definitions
    name, is_new = definitions.named("target", at.rule.route, *key)
    if is_new:
        source, value = text(inline(key[2])), definitions.text(default)
        definitions.map(Section.TARGETS, name, source, *entries, default=value, origin=at.rule.field)
    return name
