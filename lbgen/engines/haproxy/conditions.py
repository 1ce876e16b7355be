"""The conditions of a match (methods, headers, query, cookies, path regex) -> ACL words and what they need prepared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.lines import Line, line
from lbgen.engines.haproxy.quote import argument, lua_argument
from lbgen.engines.text import Literal
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from lbgen.plan.model import Match, NamedMatch, ValueMatch

Words = tuple[str | Literal, ...]


@dataclass(slots=True)
class Conditions:
    """Collects what the conditions of one listener need before they are tested: variables and named ACLs."""

    prepared: list[Line] = field(default_factory=list)
    acls: list[Line] = field(default_factory=list)
    _variables: dict[tuple[str, str], str] = field(default_factory=dict)
    _named: dict[tuple[str, ValueMatch], str] = field(default_factory=dict)

    def words(self, match: Match, origin: str) -> Words:
        """Words after `if` that hold when `match` does; its path is tested only when it is a regex."""
        found: list[str | Literal] = []
        if match.path.kind is PathKind.REGEX:
            found += ["{ path -m reg --", Literal(f"^(?:{match.path.value})$"), "}"]
        if match.methods:
            found.append(f"{{ method {' '.join(match.methods)} }}")
        for each in match.headers:
            found += self._header(each, origin)
        for each in match.query:
            found += self._kept(each, self._query_variable(each.name, origin))
        for each in match.cookies:
            found += self._kept(each, self._cookie_variable(each.name, origin))
        return tuple(found)

    def _header(self, wanted: NamedMatch, origin: str) -> Words:
        name = argument(wanted.name)
        kind, value = wanted.value.kind, wanted.value.value
        match kind:
            case ValueKind.PRESENT:
                return ("{", Literal(f"req.fhdr({name})"), "-m len 1: }")
            case ValueKind.EXACT if value == "}":  # quoted or not, that word would end the condition
                return ("{", Literal(f"req.hdr({name})"), "-m reg --", Literal("^}$"), "}")
            case ValueKind.EXACT if "," not in value:
                return ("{", Literal(f"req.hdr({name})"), "-m str --", Literal(value), "}")
            case ValueKind.EXACT:  # no element of a list holds a comma, only the whole can
                return (f"{{ var({self._combined(wanted.name, origin)}) -m str --", Literal(value), "}")
            case ValueKind.REGEX:
                return (self._element_or_whole(wanted, name, origin),)
            case _:
                assert_never(kind)

    def _element_or_whole(self, wanted: NamedMatch, name: str, origin: str) -> str:
        """A named ACL, as only that can say "or": the regex matches one element of the list, or all of it."""
        key = (wanted.name, wanted.value)
        if key not in self._named:
            whole = self._combined(wanted.name, origin)
            acl = f"{_safe(wanted.name)}.{len(self._named) + 1}"
            pattern = Literal(rf"^(?:{wanted.value.value})$")
            self.acls.append(line(origin, "acl", acl, Literal(f"req.hdr({name})"), "-m reg --", pattern))
            self.acls.append(line(origin, "acl", acl, f"var({whole})", "-m reg --", pattern))
            self._named[key] = acl
        return self._named[key]

    def _combined(self, name: str, origin: str) -> str:
        """A variable with all lines of a header joined; lines after the first are rare and joined in Lua."""
        variable, new = self._variable("header", name)
        if new:
            fetch = argument(name)
            self.prepared += [
                line(origin, "http-request set-var(" + variable + ")", Literal(f"req.fhdr({fetch})")),
                line(
                    origin,
                    "http-request lua.join",
                    Literal(name),
                    variable,
                    "if {",
                    Literal(f"req.fhdr_cnt({fetch})"),
                    "gt 1 }",
                ),
            ]
        return variable

    def _kept(self, wanted: NamedMatch, variable: str) -> Words:
        """A query or cookie value; the Lua side puts `=` before it to tell an empty value from none."""
        kind = wanted.value.kind
        match kind:
            case ValueKind.PRESENT:
                return (f"{{ var({variable}) -m len 2: }}",)
            case ValueKind.EXACT:
                return (f"{{ var({variable}) -m str", Literal(f"={wanted.value.value}"), "}")
            case ValueKind.REGEX:  # a decoded value may end with a line break, which $ would overlook
                return (f"{{ var({variable}) -m reg", Literal(rf"^=(?:{wanted.value.value})\z"), "}")
            case _:
                assert_never(kind)

    def _query_variable(self, name: str, origin: str) -> str:
        variable, new = self._variable("query", name)
        if new:
            fetch = Literal(f"query,lua.query_value({lua_argument(name)})")
            condition = ("if { query -m sub --", Literal(name), "}")
            self.prepared.append(line(origin, f"http-request set-var({variable})", fetch, *condition))
        return variable

    def _cookie_variable(self, name: str, origin: str) -> str:
        variable, new = self._variable("cookie", name)
        if new:
            condition = ("if { req.fhdr(cookie) -m sub --", Literal(name), "}")
            self.prepared.append(line(origin, "http-request lua.cookie", Literal(name), variable, *condition))
        return variable

    def _variable(self, kind: str, name: str) -> tuple[str, bool]:
        if (kind, name) in self._variables:
            return self._variables[kind, name], False
        variable = f"txn.{kind}_{re.sub('[^A-Za-z0-9]', '_', name)}"
        if variable in self._variables.values():
            variable = f"{variable}_{len(self._variables)}"
        self._variables[kind, name] = variable
        return variable, True


def _safe(name: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", name)
