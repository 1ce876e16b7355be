"""Path rewrites: maps over the raw target that replace its path or the matched prefix; addresses of redirects.

nginx's own rewriting decodes the path and encodes it differently. Every value starts with a slash, so that it cannot
extend the address it is appended to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.paths import target_variable
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import Entry, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.path_conditions import PrefixPath

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Listener, Redirect, Rule

_TAIL = inline("tail")
_PORTS = {"http": 80, "https": 443}


class Rewrites:
    """Variables with rewritten targets; their maps go to `maps`."""

    def __init__(self, names: Names, texts: Texts, maps: list[Map]) -> None:
        self._names = names
        self._texts = texts
        self._maps = maps
        self._known: dict[tuple[str, str, str], str] = {}

    def with_path(self, path: str, rule: Rule, target: str) -> str:
        """The variable with `path` and the query of the variable `target`."""
        return self._variable(("", path, target), rule, path, self._entry(r"/[^?]*(?<tail>\?.*)", path))

    def with_prefix(self, prefix: str, rule: Rule, target: str) -> str:
        """The variable with the target whose matched prefix, or exact path, is replaced; never empty or `//`."""
        matched, new = rule.match.path, prefix.rstrip("/")
        if not isinstance(matched, PrefixPath):
            return self.with_path(new or "/", rule, target)
        start = escapes.path_literal(matched.value.rstrip("/"))
        below = self._entry(f"{start}(?<tail>/.*)", new)
        if not start:
            return self._variable((f"{start}/", new, target), rule, new or "/", below)
        rest = self._entry(f"{start}(?<tail>.*)", new or "/")
        entries = (rest,) if new else (below, rest)
        return self._variable((f"{start}/", new, target), rule, new or "/", *entries)

    def redirect(self, action: Redirect, rule: Rule, listener: Listener) -> Text:
        """The address that a redirect leads to."""
        scheme = action.scheme or listener.scheme
        default = _PORTS[scheme]
        port = action.port or (default if action.scheme else listener.client_port)
        host: str | Atom = action.host or inline("host")
        authority: list[str | Atom] = [f"{scheme}://", host, "" if port == default else f":{port}"]
        target = target_variable(listener)
        if action.path is not None:
            target = self.with_path(action.path, rule, target)
        elif action.prefix is not None:
            target = self.with_prefix(action.prefix, rule, target)
        return self._texts.of(*authority, inline(target))

    def _entry(self, regex: str, new: str) -> Entry:
        return Entry(Literal(f"^{regex}$", "regex"), self._texts.of(new, _TAIL))

    def _variable(self, key: tuple[str, str, str], rule: Rule, default: str, *entries: Entry) -> str:
        if key not in self._known:
            name = self._known[key] = self._names.variable("target", rule.route)
            source = text(inline(key[2]))
            self._maps.append(Map(Atom(rule.field), source, reference(name), self._texts.of(default), entries))
        return self._known[key]
