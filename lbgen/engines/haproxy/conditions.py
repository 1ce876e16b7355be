"""The conditions of a match (methods, headers, query, cookies, path regex) as ACLs, and the statements these need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.haproxy.quote import argument, value_regex
from lbgen.engines.haproxy.statements import Acl, Statement, acl, batches, found, named, set_var, statement
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
    _queries: dict[str, str] = field(default_factory=dict)
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
        acls += (_query(each, self._query_variable(each.name, origin)) for each in match.query)
        acls += map(_cookie, match.cookies)
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
        """HAProxy tries each element of a list, `req.fhdr` each line as a whole."""
        name = argument(header.name)
        kind, value = header.value.kind, header.value.value
        match kind:
            case ValueKind.PRESENT:
                return acl(Literal(f"req.fhdr({name})"), "-m len 1:")
            case ValueKind.EXACT if value == "}":  # quoted or not, that word would end the ACL
                return acl(Literal(f"req.hdr({name})"), "-m reg --", Literal("^}$"))
            case ValueKind.EXACT:  # an element of a list has no comma, only the whole list can
                return acl(Literal(f"req.{'f' if ',' in value else ''}hdr({name})"), "-m str --", Literal(value))
            case ValueKind.REGEX:
                return self._element_or_whole(header, name, origin)
            case _:
                assert_never(kind)

    def _element_or_whole(self, header: NamedMatch, name: str, origin: str) -> Acl:
        """The regex matches one element of the list, or all of it; only a named ACL can express "or"."""
        key = (header.name, header.value)
        if key not in self._lists:
            pattern = Literal(f"^(?:{value_regex(header.value.value)})$")
            ways = [acl(Literal(f"req.{fetch}({name})"), "-m reg --", pattern) for fetch in ("hdr", "fhdr")]
            self._lists[key] = self._name(header.name, origin, *ways)
        return self._lists[key]

    def _query_variable(self, name: str, origin: str) -> str:
        """A variable with `=` and the decoded value of the first parameter of that name; unset without one. A value
        with an escaped NUL counts as none, as HAProxy compares texts only up to it."""
        if name not in self._queries:
            variable = f"txn.query_{re.sub('[^A-Za-z0-9]', '_', name)}"
            if variable in self._queries.values():
                variable = f"{variable}_{len(self._queries)}"
            self._queries[name] = variable
            key = "".join(
                c if c.isalnum() and c.isascii() else "".join(f"\\x{b:02x}" for b in c.encode()) for c in name
            )
            value = Literal(f'query,regsub("^(?:[^&]*&)*?{key}(?:=([^&]*))?(?:&.*)?$","=\\1")')
            has_one = acl("query -m reg", Literal(f"(?:^|&){key}(?:=(?![^&]*%00)|&|$)"))
            self.variables.append(set_var(variable, value, [has_one], origin))
            # Where this fails, as for an escape that is none, the value stays as it came.
            self.variables.append(set_var(variable, f"var({variable}),url_dec", [found(variable)], origin))
        return self._queries[name]


def _query(match: NamedMatch, variable: str) -> Acl:
    kind = match.value.kind
    match kind:
        case ValueKind.PRESENT:
            return acl(f"var({variable}) -m len 2:")
        case ValueKind.EXACT:
            return acl(f"var({variable}) -m str", Literal(f"={match.value.value}"))
        case ValueKind.REGEX:  # a decoded value may end with a line break, which $ would ignore
            return acl(f"var({variable}) -m reg", Literal(rf"^=(?:{value_regex(match.value.value)})\z"))
        case _:
            assert_never(kind)


def _cookie(match: NamedMatch) -> Acl:
    """A value may stand in quotes."""
    fetch, value = Literal(f"req.cook({argument(match.name)})"), match.value.value
    kind = match.value.kind
    match kind:
        case ValueKind.PRESENT:
            return acl(fetch, "-m reg --", Literal('[^"]'))
        case ValueKind.EXACT if value == "}":
            return acl(fetch, "-m reg --", Literal("^}$"))
        case ValueKind.EXACT if "," in value:  # where req.cook ends a value
            text = rf'(?:^|;)[ \t]*{re.escape(match.name)}="?{re.escape(value)}"?[ \t]*(?:;|$)'
            return acl("req.fhdr(cookie) -m reg --", Literal(text))
        case ValueKind.EXACT:
            return acl(fetch, "-m str --", Literal(value), Literal(f'"{value}"'))
        case ValueKind.REGEX:
            return acl(fetch, "-m reg --", Literal(f'^"?(?:{value_regex(value)})"?$'))
        case _:
            assert_never(kind)


def _count(condition: Acl) -> int:
    """How many words of a line the ACL takes, without its braces."""
    return sum(len(word.text.split()) if isinstance(word, Atom) else 1 for word in condition.words)
