"""The conditions of a match (methods, headers, query, cookies, path regex) as ACLs, and the statements these need."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field

from lbgen.engines.api import NATIVE, Verdict, emulated, habit
from lbgen.engines.conditions import ConditionTable, Rendered
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.quote import argument, value_regex
from lbgen.engines.haproxy.statements import Acl, Statement, acl, acl_named, batches, is_set, set_var, statement
from lbgen.engines.text import Atom, Literal
from lbgen.plan.conditions import (
    FEATURES,
    Absent,
    AnyOperator,
    AnySubject,
    Cookie,
    Exact,
    Header,
    Method,
    Not,
    OneOf,
    Present,
    Query,
    Regex,
    Source,
    Within,
)
from lbgen.plan.model import HostPattern, Match
from lbgen.plan.path_conditions import ExactPath, PrefixPath, RegexPath

DOMAIN = "str(.),concat(,txn.host)"  # the host with a dot before it
PREFIX = "path,concat(/)"
_HOSTS_IN_PLACE = 8  # of a statement; more have a named ACL
_WORDS_PER_LINE = 40  # in the ACLs of one statement; beyond that each gets a name


class Conditions(Struct):
    """Collects what the conditions of one listener need above them: variables and named ACLs. `client`: a sample of the
    client's address."""

    client: str
    maps: Maps
    variables: list[Statement] = field(default_factory=list)
    acls: list[Statement] = field(default_factory=list)
    _queries: dict[str, str] = field(default_factory=dict)
    _sources: dict[Within, Acl] = field(default_factory=dict)
    _lists: dict[tuple[str, Regex], Acl] = field(default_factory=dict)
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
        if not match.path.is_text or (whole_path and not match.path.covers_all):
            acls.append(CONDITIONS[type(match.path)].render(match.path.value))
        acls += (
            CONDITIONS[each.kind].render(self, each.subject.name, each.operator, origin) for each in match.conditions
        )
        if sum(map(_count, acls)) + 2 * len(acls) > _WORDS_PER_LINE:
            acls = [each if each.is_name else self._short(each, origin) for each in acls]
        return acls

    def _short(self, condition: Acl, origin: str) -> Acl:
        name = self._name("test", origin, condition)
        return ~name if condition.negated else name

    def _name(self, subject: str, origin: str, *alternatives: Acl) -> Acl:
        """A named ACL that holds when one of `alternatives` does."""
        self._names += 1
        name = f"{re.sub('[^A-Za-z0-9_-]', '_', subject)}.{self._names}"
        self.acls += (statement("acl", name, *each.words, origin=origin) for each in alternatives)
        return acl_named(name)

    def header_regex(self, name: str, operator: Regex, origin: str) -> Acl:
        """The regex matches one element of the list, or all of it; only a named ACL can express "or"."""
        key = (name, operator)
        if key not in self._lists:
            pattern = Literal(f"^(?:{value_regex(operator.value)})$")
            ways = [acl(Literal(f"req.{fetch}({argument(name)})"), "-m reg --", pattern) for fetch in ("hdr", "fhdr")]
            self._lists[key] = self._name(name, origin, *ways)
        return self._lists[key]

    def is_from(self, operator: Within, origin: str) -> Acl:
        """The ACL for clients of these networks; rules share the list file of many."""
        if operator not in self._sources:
            sample, purpose = f"{self.client} -m ip", f"sources.{len(self._sources) + 1}"
            self._sources[operator] = self.maps.is_within(sample, operator.networks, purpose, origin)
        return self._sources[operator]

    def query_variable(self, name: str, origin: str) -> str:
        """A variable with `=` and the decoded value of the first parameter of that name; unset without one. A value
        with an escaped NUL counts as none, as HAProxy compares texts only up to it."""
        if name not in self._queries:
            variable = f"txn.query_{re.sub('[^A-Za-z0-9]', '_', name)}"
            if variable in self._queries.values():
                variable = f"{variable}_{len(self._queries)}"
            self._queries[name] = variable
            key = _query_key(name)
            value = Literal(f'query,regsub("^(?:[^&]*&)*?{key}(?:=([^&]*))?(?:&.*)?$","=\\1")')
            has_one = acl("query -m reg", Literal(f"(?:^|&){key}(?:=(?![^&]*%00)|&|$)"))
            self.variables.append(set_var(variable, value, [has_one], origin))
            # Where this fails, as for an escape that is none, the value stays as it came.
            self.variables.append(set_var(variable, f"var({variable}),url_dec", [is_set(variable)], origin))
        return self._queries[name]


def _exact_path(value: str) -> Acl:
    return acl("path -m str --", Literal(value))


def _path_prefix(value: str) -> Acl:
    """The slash behind it keeps /api from taking /apix."""
    return acl(f"{PREFIX} -m beg --", Literal(f"{value}/"))


def _path_pattern(value: str) -> Acl:
    return acl("path -m reg --", Literal(f"^(?:{value})$"))


def _method(_: Conditions, name: str, operator: OneOf, origin: str) -> Acl:
    return acl("method", *operator.values)


def _exact_header(_: Conditions, name: str, operator: Exact, origin: str) -> Acl:
    """HAProxy tries each element of a list, `req.fhdr` each line as a whole."""
    fetched, value = argument(name), operator.value
    if value == "}":  # quoted or not, that word would end the ACL
        return acl(Literal(f"req.hdr({fetched})"), "-m reg --", Literal("^}$"))
    # An element of a list has no comma, only the whole list can.
    return acl(Literal(f"req.{'f' if ',' in value else ''}hdr({fetched})"), "-m str --", Literal(value))


def _present_header(_: Conditions, name: str, operator: Present, origin: str) -> Acl:
    return acl(Literal(f"req.fhdr({argument(name)})"), "-m len 1:")


def _header_regex(conditions: Conditions, name: str, operator: Regex, origin: str) -> Acl:
    return conditions.header_regex(name, operator, origin)


def _query_key(name: str) -> str:
    """The regex of a parameter's name."""
    return "".join(c if c.isalnum() and c.isascii() else "".join(f"\\x{b:02x}" for b in c.encode()) for c in name)


def _exact_parameter(conditions: Conditions, name: str, operator: Exact, origin: str) -> Acl:
    return acl(f"var({conditions.query_variable(name, origin)}) -m str", Literal(f"={operator.value}"))


def _parameter_regex(conditions: Conditions, name: str, operator: Regex, origin: str) -> Acl:
    """A decoded value may end with a line break, which $ would ignore."""
    variable = conditions.query_variable(name, origin)
    return acl(f"var({variable}) -m reg", Literal(rf"^=(?:{value_regex(operator.value)})\z"))


def _present_parameter(conditions: Conditions, name: str, operator: Present, origin: str) -> Acl:
    return acl(f"var({conditions.query_variable(name, origin)}) -m len 2:")


def _cookie(name: str) -> Literal:
    """A value may stand in quotes."""
    return Literal(f"req.cook({argument(name)})")


def _exact_cookie(_: Conditions, name: str, operator: Exact, origin: str) -> Acl:
    value = operator.value
    if value == "}":
        return acl(_cookie(name), "-m reg --", Literal("^}$"))
    if "," in value:  # where req.cook ends a value
        text = rf'(?:^|;)[ \t]*{re.escape(name)}="?{re.escape(value)}"?[ \t]*(?:;|$)'
        return acl("req.fhdr(cookie) -m reg --", Literal(text))
    return acl(_cookie(name), "-m str --", Literal(value), Literal(f'"{value}"'))


def _cookie_regex(_: Conditions, name: str, operator: Regex, origin: str) -> Acl:
    return acl(_cookie(name), "-m reg --", Literal(f'^"?(?:{value_regex(operator.value)})"?$'))


def _present_cookie(_: Conditions, name: str, operator: Present, origin: str) -> Acl:
    return acl(_cookie(name), "-m reg --", Literal('[^"]'))


def _source(conditions: Conditions, name: str, operator: Within, origin: str) -> Acl:
    return conditions.is_from(operator, origin)


def _absent_parameter(conditions: Conditions, name: str, operator: Absent, origin: str) -> Acl:
    """By the raw query: in a variable, a value that begins with an escaped NUL would look empty."""
    key = _query_key(name)
    return ~acl("query -m reg", Literal(f"^(?:(?!{key}(?:[=&]|$))[^&]*&)*{key}=[^&]"))


def _absent(present: Callable[[Conditions, str, Present, str], Acl]) -> Callable[[Conditions, str, Absent, str], Acl]:
    return lambda conditions, name, _, origin: ~present(conditions, name, Present(), origin)


def _not(kind: type[AnySubject]) -> Callable[[Conditions, str, Not, str], Acl]:
    return lambda conditions, name, operator, origin: (
        ~CONDITIONS[kind, type(operator.operator)].render(conditions, name, operator.operator, origin)
    )


_FIRST = emulated("a regex finds the first parameter of that name")
_ANY_COOKIE = (
    "a request matches by any of several cookies of that name; a value ends at a comma, unless `exact` has one"
)


def _cookies(operator: type[AnyOperator], shows: str = "accepted") -> Verdict:
    return habit(_ANY_COOKIE, {f"{FEATURES[Cookie, operator]}.repeated": shows})


CONDITIONS: ConditionTable = {
    ExactPath: Rendered(_exact_path, NATIVE),
    PrefixPath: Rendered(_path_prefix, emulated("a prefix map lookup of the path with a slash behind it")),
    RegexPath: Rendered(
        _path_pattern,
        emulated(
            "PCRE, which matches the accepted subset as RE2 does; where a group repeats over a thousand times in one "
            "path it stops, and the rule does not match"
        ),
    ),
    (Method, OneOf): Rendered(_method, NATIVE),
    (Header, Exact): Rendered(_exact_header, NATIVE),
    (Header, Regex): Rendered(_header_regex, emulated("ACLs on each element of the list and on the whole list")),
    (Header, Present): Rendered(_present_header, NATIVE),
    (Header, Absent): Rendered(_absent(_present_header), NATIVE),
    (Query, Exact): Rendered(_exact_parameter, _FIRST),
    (Query, Regex): Rendered(_parameter_regex, _FIRST),
    (Query, Present): Rendered(_present_parameter, _FIRST),
    (Query, Absent): Rendered(_absent_parameter, _FIRST),
    (Cookie, Exact): Rendered(_exact_cookie, _cookies(Exact)),
    (Cookie, Regex): Rendered(_cookie_regex, _cookies(Regex)),
    (Cookie, Present): Rendered(_present_cookie, _cookies(Present)),
    (Cookie, Absent): Rendered(_absent(_present_cookie), _cookies(Absent, "another rule")),
    (Source, Within): Rendered(_source, NATIVE),
    (Method, Not): Rendered(_not(Method), NATIVE),
    (Header, Not): Rendered(_not(Header), NATIVE),
    (Query, Not): Rendered(_not(Query), _FIRST),
    (Cookie, Not): Rendered(_not(Cookie), _cookies(Not, "another rule")),
    (Source, Not): Rendered(_not(Source), NATIVE),
}


def _count(condition: Acl) -> int:
    """How many words of a line the ACL takes, without its braces."""
    return sum(len(word.text.split()) if isinstance(word, Atom) else 1 for word in condition.words)
