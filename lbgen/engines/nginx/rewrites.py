"""Path rewrites: maps over the raw target that replace its path or the matched prefix.

nginx's own rewriting decodes the path and encodes it differently. Every value starts with a slash, so that it cannot
extend the address it is appended to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import Entry, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import PathKind

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.strings import Texts
    from lbgen.plan.model import Rule

_TAIL = inline("tail")


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
        if matched.kind is not PathKind.PREFIX:
            return self.with_path(new or "/", rule, target)
        start = escapes.path_literal(matched.value.rstrip("/"))
        below = self._entry(f"{start}(?<tail>/.*)", new)
        if not start:
            return self._variable((matched.value, new, target), rule, new or "/", below)
        rest = self._entry(f"{start}(?<tail>.*)", new or "/")
        entries = (rest,) if new else (below, rest)
        return self._variable((matched.value, new, target), rule, new or "/", *entries)

    def _entry(self, regex: str, new: str) -> Entry:
        return Entry(Literal(f"^{regex}$", "regex"), self._texts.of(new, _TAIL))

    def _variable(self, key: tuple[str, str, str], rule: Rule, default: str, *entries: Entry) -> str:
        if key not in self._known:
            name = self._known[key] = self._names.variable("target", rule.route)
            source = text(inline(key[2]))
            self._maps.append(Map(Atom(rule.field), source, reference(name), self._texts.of(default), entries))
        return self._known[key]
