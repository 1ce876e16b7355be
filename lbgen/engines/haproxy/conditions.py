"""The conditions of a match (methods, headers, query, cookies, path regex) -> ACL words and what they need prepared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.haproxy.quote import argument, lua_argument, value_regex
from lbgen.engines.haproxy.statements import Line, line
from lbgen.engines.text import Literal
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from lbgen.plan.model import Match, NamedMatch, ValueMatch

Words = tuple[str | Literal, ...]
_WORDS = 40  # in the conditions of one statement; more are named before


@dataclass(slots=True)
class Conditions:
    """Collects what the conditions of one listener need before they are tested: variables and named ACLs."""

    prepared: list[Line] = field(default_factory=list)
    acls: list[Line] = field(default_factory=list)
    _variables: dict[tuple[str, str], str] = field(default_factory=dict)
    _lists: dict[tuple[str, ValueMatch], str] = field(default_factory=dict)
    _names: int = 0

    def words(self, match: Match, origin: str) -> Words:
        """Words after `if` that hold when `match` does; its path is tested only when it is a regex."""
        tests: list[Words] = []
        if match.path.kind is PathKind.REGEX:
            tests.append(("path -m reg --", Literal(f"^(?:{match.path.value})$")))
        if match.methods:
            tests.append((f"method {' '.join(match.methods)}",))
        tests += (self._header(each, origin) for each in match.headers)
        tests += (self._kept(each, self._query_variable(each.name, origin)) for each in match.query)
        tests += (self._kept(each, self._cookie_variable(each.name, origin)) for each in match.cookies)
        if sum(map(_count, tests)) + 2 * len(tests) > _WORDS:
            tests = [test if _is_named(test) else (self._name("test", origin, test),) for test in tests]
        return tuple(word for test in tests for word in (test if _is_named(test) else ("{", *test, "}")))

    def _name(self, subject: str, origin: str, *tests: Words) -> str:
        """A named ACL that holds when one of `tests` does."""
        self._names += 1
        name = f"{re.sub('[^A-Za-z0-9_-]', '_', subject)}.{self._names}"
        self.acls += (line(origin, "acl", name, *test) for test in tests)
        return name

    def _header(self, wanted: NamedMatch, origin: str) -> Words:
        name = argument(wanted.name)
        kind, value = wanted.value.kind, wanted.value.value
        match kind:
            case ValueKind.PRESENT:
                return (Literal(f"req.fhdr({name})"), "-m len 1:")
            case ValueKind.EXACT if value == "}":  # quoted or not, that word would end the condition
                return (Literal(f"req.hdr({name})"), "-m reg --", Literal("^}$"))
            case ValueKind.EXACT if "," not in value:
                return (Literal(f"req.hdr({name})"), "-m str --", Literal(value))
            case ValueKind.EXACT:  # no element of a list holds a comma, only the whole can
                return (f"var({self._combined(wanted.name, origin)}) -m str --", Literal(value))
            case ValueKind.REGEX:
                return (self._element_or_whole(wanted, name, origin),)
            case _:
                assert_never(kind)

    def _element_or_whole(self, wanted: NamedMatch, name: str, origin: str) -> str:
        """A named ACL, as only that can say "or": the regex matches one element of the list, or all of it."""
        key = (wanted.name, wanted.value)
        if key not in self._lists:
            pattern = Literal(f"^(?:{value_regex(wanted.value.value)})$")
            whole = f"var({self._combined(wanted.name, origin)}) -m reg --"
            element = Literal(f"req.hdr({name})")
            self._lists[key] = self._name(wanted.name, origin, (element, "-m reg --", pattern), (whole, pattern))
        return self._lists[key]

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
                return (f"var({variable}) -m len 2:",)
            case ValueKind.EXACT:
                return (f"var({variable}) -m str", Literal(f"={wanted.value.value}"))
            case ValueKind.REGEX:  # a decoded value may end with a line break, which $ would overlook
                return (f"var({variable}) -m reg", Literal(rf"^=(?:{value_regex(wanted.value.value)})\z"))
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


def _count(words: Words) -> int:
    return sum(len(w.split()) if isinstance(w, str) else 1 for w in words)


def _is_named(test: Words) -> bool:
    """Whether the test is a named ACL, which stands without braces."""
    return len(test) == 1 and isinstance(test[0], str) and " " not in test[0]
