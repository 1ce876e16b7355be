"""The conditions of a match (methods, headers, query, cookies, path regex) as ACLs, and the statements these need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.haproxy.quote import argument, lua_argument, value_regex
from lbgen.engines.haproxy.statements import Acl, Statement, acl, batches, named, set_var, statement
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import PathKind, ValueKind

if TYPE_CHECKING:
    from lbgen.plan.model import HostPattern, Match, NamedMatch, ValueMatch

DOMAIN = "str(.),concat(,txn.host)"  # the host with a dot before it
PREFIX = "path,concat(/)"
_HOSTS_IN_PLACE = 8  # of a statement; more have a named ACL
_WORDS_PER_LINE = 40  # in the ACLs of one statement; beyond that each gets a name


class Conditions(Struct):
    """Collects what the conditions of one listener need above them: variables and named ACLs."""

    variables: list[Statement] = field(default_factory=list)
    acls: list[Statement] = field(default_factory=list)
    _variables: dict[tuple[str, str], str] = field(default_factory=dict)
    _lists: dict[tuple[str, ValueMatch], Acl] = field(default_factory=dict)
    _hosts: dict[tuple[HostPattern | None, ...], Acl] = field(default_factory=dict)
    _names: int = 0

    def of_hosts(self, hosts: tuple[HostPattern | None, ...], origin: str) -> list[Acl]:
        """ACLs that all hold when `txn.host` belongs to one of `hosts`."""
        if None in hosts:
            return []
        exact = [host.name for host in hosts if host and not host.wildcard]
        wildcards = [f".{host.name}" for host in hosts if host and host.wildcard]
        if sorted(exact) == sorted(name[1:] for name in wildcards):  # domains with all below them
            return [acl(f"{DOMAIN} -m end {' '.join(wildcards)}")]
        ways = [acl(f"var(txn.host) -m str {' '.join(names)}") for names in batches(exact)]
        ways += [acl(f"var(txn.host) -m end {' '.join(names)}") for names in batches(wildcards)]
        if len(hosts) <= _HOSTS_IN_PLACE and len(ways) == 1:
            return ways
        if hosts not in self._hosts:
            self._hosts[hosts] = self._name(f"host.{(exact or wildcards)[0].strip('.')}", origin, *ways)
        return [self._hosts[hosts]]

    def of(self, match: Match, origin: str, whole_path: bool = False) -> list[Acl]:
        """ACLs that all hold when `match` does. Its path is tested only when it is a regex, or with `whole_path`."""
        acls: list[Acl] = []
        path = match.path
        if path.kind is PathKind.REGEX:
            acls.append(acl("path -m reg --", Literal(f"^(?:{path.value})$")))
        elif whole_path and path.kind is PathKind.EXACT:
            acls.append(acl("path -m str --", Literal(path.value)))
        elif whole_path and not path.covers_all:  # the slash behind it keeps /api from taking /apix
            acls.append(acl(f"{PREFIX} -m beg --", Literal(f"{path.value}/")))
        if match.methods:
            acls.append(acl("method", *match.methods))
        acls += (self._header(each, origin) for each in match.headers)
        acls += (_optional(each, self._query_variable(each.name, origin)) for each in match.query)
        acls += (_optional(each, self._cookie_variable(each.name, origin)) for each in match.cookies)
        if sum(map(_count, acls)) + 2 * len(acls) > _WORDS_PER_LINE:
            acls = [each if each.is_name else self._name("test", origin, each) for each in acls]
        return acls

    def _name(self, subject: str, origin: str, *alternatives: Acl) -> Acl:
        """A named ACL that holds when one of `alternatives` does."""
        self._names += 1
        name = f"{re.sub('[^A-Za-z0-9_-]', '_', subject)}.{self._names}"
        self.acls += (statement("acl", name, *each.words, origin=origin) for each in alternatives)
        return named(name)

    def _header(self, header: NamedMatch, origin: str) -> Acl:
        name = argument(header.name)
        kind, value = header.value.kind, header.value.value
        match kind:
            case ValueKind.PRESENT:
                return acl(Literal(f"req.fhdr({name})"), "-m len 1:")
            case ValueKind.EXACT if value == "}":  # quoted or not, that word would end the ACL
                return acl(Literal(f"req.hdr({name})"), "-m reg --", Literal("^}$"))
            case ValueKind.EXACT if "," not in value:
                return acl(Literal(f"req.hdr({name})"), "-m str --", Literal(value))
            case ValueKind.EXACT:  # an element of a list has no comma, only the whole list can
                return acl(f"var({self._joined_variable(header.name, origin)}) -m str --", Literal(value))
            case ValueKind.REGEX:
                return self._element_or_whole(header, name, origin)
            case _:
                assert_never(kind)

    def _element_or_whole(self, header: NamedMatch, name: str, origin: str) -> Acl:
        """The regex matches one element of the list, or all of it; only a named ACL can express "or"."""
        key = (header.name, header.value)
        if key not in self._lists:
            pattern = Literal(f"^(?:{value_regex(header.value.value)})$")
            whole = acl(f"var({self._joined_variable(header.name, origin)}) -m reg --", pattern)
            element = acl(Literal(f"req.hdr({name})"), "-m reg --", pattern)
            self._lists[key] = self._name(header.name, origin, element, whole)
        return self._lists[key]

    def _joined_variable(self, name: str, origin: str) -> str:
        """A variable with all lines of a header joined by commas; Lua joins them, as a second line is rare."""
        variable, is_new = self._variable("header", name)
        if is_new:
            fetch = argument(name)
            has_more = acl(Literal(f"req.fhdr_cnt({fetch})"), "gt 1")
            self.variables += [
                set_var(variable, Literal(f"req.fhdr({fetch})"), origin=origin),
                statement("http-request lua.join", Literal(name), variable, when=[has_more], origin=origin),
            ]
        return variable

    def _query_variable(self, name: str, origin: str) -> str:
        variable, is_new = self._variable("query", name)
        if is_new:
            fetch = Literal(f"query,lua.query_value({lua_argument(name)})")
            when = [acl("query -m sub --", Literal(name))]
            self.variables.append(set_var(variable, fetch, when, origin))
        return variable

    def _cookie_variable(self, name: str, origin: str) -> str:
        variable, is_new = self._variable("cookie", name)
        if is_new:
            when = [acl("req.fhdr(cookie) -m sub --", Literal(name))]
            self.variables.append(
                statement("http-request lua.cookie", Literal(name), variable, when=when, origin=origin)
            )
        return variable

    def _variable(self, kind: str, name: str) -> tuple[str, bool]:
        """The variable's name, and whether it is new."""
        if (kind, name) in self._variables:
            return self._variables[kind, name], False
        variable = f"txn.{kind}_{re.sub('[^A-Za-z0-9]', '_', name)}"
        if variable in self._variables.values():
            variable = f"{variable}_{len(self._variables)}"
        self._variables[kind, name] = variable
        return variable, True


def _optional(match: NamedMatch, variable: str) -> Acl:
    """Compares a query parameter or cookie; Lua writes `=` before the value to tell an empty one from none."""
    kind = match.value.kind
    match kind:
        case ValueKind.PRESENT:
            return acl(f"var({variable}) -m len 2:")
        case ValueKind.EXACT:
            return acl(f"var({variable}) -m str", Literal(f"={match.value.value}"))
        case ValueKind.REGEX:  # a decoded value may end with a line break, which $ would ignore
            return acl(f"var({variable}) -m reg", Literal(rf"^\x00?=(?:{value_regex(match.value.value)})\z"))
        case _:
            assert_never(kind)


def _count(condition: Acl) -> int:
    """How many words of a line the ACL takes, without its braces."""
    return sum(len(word.text.split()) if isinstance(word, Atom) else 1 for word in condition.words)
