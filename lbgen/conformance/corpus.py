"""Requests that test a plan: for every rule a match, near misses of each condition, and neighbours of its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Listener, Mode, NamedMatch, PathKind, PathMatch, Plan, Rule, ValueKind, ValueMatch
from lbgen.plan.request import Request
from lbgen.records import replace
from lbgen.runtime.common.regex_example import regex_example

NOWHERE = "lbgen-corpus.invalid"  # a host that no topology names
_QUERY_RAW = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?@!$'()*,")


@dataclass(frozen=True, slots=True)
class Draft:
    """A request in parts, before it is put on the wire. Values are unencoded text."""

    method: str
    host: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()

    def request(self, listener: str) -> Request:
        """As a request to `listener`."""
        pairs = "&".join(f"{name}={encoded(value)}" for name, value in self.query)
        headers = [("Host", self.host), *((n, raw(v)) for n, v in self.headers)]
        if self.cookies:
            headers.append(("Cookie", "; ".join(f"{n}={raw(v)}" for n, v in self.cookies)))
        target = self.path + (f"?{pairs}" if pairs else "")
        return Request(self.method, target, tuple(headers), listener)


def raw(text: str) -> str:
    """Text as it travels: UTF-8 bytes, one character each."""
    return text.encode().decode("latin-1")


def encoded(text: str) -> str:
    """A query value with everything escaped that delimits or may not stand there."""
    return "".join(c if c in _QUERY_RAW else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


def corpus(plan: Plan) -> tuple[Request, ...]:
    """Requests for every L7 listener of `plan`, in the order of the rules, none twice."""
    found: dict[Request, None] = {}
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
        for rank in sorted(rules):
            for draft in drafts(rules[rank]):
                found.setdefault(replace(draft.request(listener.name), client=_client(listener, draft)))
        found.setdefault(Draft("GET", NOWHERE, "/").request(listener.name))
        found.setdefault(replace(Draft("GET", NOWHERE, "/").request(listener.name), headers=(), version="1.0"))
    return tuple(found)


def _client(listener: Listener, draft: Draft) -> str:
    """Where the draft comes from: a trusted proxy where it has fields that only those may set."""
    asks = any(name in PROXY_FIELDS for name, _ in draft.headers)
    network = next((ip_network(text) for text in listener.trusted_proxies if asks), None)
    return "127.0.0.1" if network is None else str(network[min(1, network.num_addresses - 1)])


def drafts(rule: Rule) -> Iterator[Draft]:
    """The hit of a rule, then what lies around it. Nothing for a regex that no text could be found for."""
    return (draft for _, draft in labelled_drafts(rule))


def labelled_drafts(rule: Rule) -> Iterator[tuple[str, Draft]]:
    """As `drafts`, each with what it tries: rule, path, host, method, header, query or cookie."""
    hit = matching_draft(rule)
    if hit is None:
        return
    yield "rule", hit
    for neighbour in neighbours(rule.match.path, hit.path):
        yield "path", replace(hit, path=neighbour)
    for host in _hosts(rule):
        yield "host", replace(hit, host=host)
    for method in _methods(rule):
        yield "method", replace(hit, method=method)
    for headers in _lists(rule.match.headers, hit.headers):
        yield "header", replace(hit, headers=headers)
    for query in _lists(rule.match.query, hit.query):
        yield "query", replace(hit, query=query)
    for cookies in _lists(rule.match.cookies, hit.cookies):
        yield "cookie", replace(hit, cookies=cookies)


def overlapping_drafts(one: Rule, other: Rule) -> Iterator[Draft]:
    """Requests that may fulfil both rules at once, so that the order of the two decides; none where they exclude each
    other plainly. Whether one really does, the oracle tells."""
    hits = matching_draft(one), matching_draft(other)
    hosts = [x for x in (one, other) if x.host is not None]
    if hits[0] is None or hits[1] is None or not _hosts_meet(one, other):
        return
    methods = [m for m in one.match.methods or other.match.methods if m in (other.match.methods or one.match.methods)]
    if not methods and (one.match.methods or other.match.methods):
        return
    # The narrower host lies within the wider; of two paths the one that both cover is one of the two, or below.
    narrow = max(hosts, key=lambda x: (not x.host.wildcard, len(x.host.name)) if x.host else (False, 0), default=one)
    host = (hits[0] if narrow is one else hits[1]).host
    for path in dict.fromkeys((hits[0].path, hits[1].path)):
        named = [_union(getattr(hits[0], key), getattr(hits[1], key)) for key in ("headers", "query", "cookies")]
        headers, query, cookies = named
        if headers is not None and query is not None and cookies is not None:
            yield Draft(methods[0] if methods else "GET", host, path, headers, query, cookies)


def _hosts_meet(one: Rule, other: Rule) -> bool:
    if one.host is None or other.host is None:
        return True
    return one.host.covers_pattern(other.host) or other.host.covers_pattern(one.host)


def _union(one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...] | None:
    """Both lists of values; None when they want two values of one name."""
    found = dict(one)
    for name, value in other:
        if found.setdefault(name, value) != value:
            return None
    return tuple(found.items())


def matching_draft(rule: Rule) -> Draft | None:
    """A request that fulfils the rule; None when no text was found for one of its regexes."""
    return _hit(rule, example(rule.match.path))


def _hit(rule: Rule, path: str | None) -> Draft | None:
    host = NOWHERE if rule.host is None else f"x.{rule.host.name}" if rule.host.wildcard else rule.host.name
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    parts = [_named(part) for part in (rule.match.headers, rule.match.query, rule.match.cookies)]
    headers, query, cookies = parts
    if path is None or headers is None or query is None or cookies is None:
        return None
    return Draft((rule.match.methods or ("GET",))[0], host, path, headers, query, cookies)


def _named(wanted: Iterable[NamedMatch]) -> tuple[tuple[str, str], ...] | None:
    found = []
    for match in wanted:
        value = value_of(match.value)
        if value is None:
            return None
        found.append((match.name, value))
    return tuple(found)


def value_of(wanted: ValueMatch) -> str | None:
    """A value that matches; None when none was found."""
    if wanted.kind is ValueKind.PRESENT:
        return "1"
    return wanted.value if wanted.kind is ValueKind.EXACT else regex_example(wanted.value)


def example(path: PathMatch) -> str | None:
    """A path that matches; None when none was found."""
    if path.kind is not PathKind.REGEX:
        return path.value
    found = regex_example(path.value)
    return found if found is not None and found.startswith("/") else None


def neighbours(path: PathMatch, hit: str) -> Iterator[str]:
    """Paths just inside and just outside of what `path` covers."""
    bare = hit.rstrip("/")
    yield from (bare + "/", bare + "/x", bare + "/x/y", hit + "x", hit + ".x", hit + "%20")
    if bare:
        yield bare[:-1] or "/"
        yield bare.rpartition("/")[0] or "/"
        yield bare.swapcase() if "%" not in bare else bare
    if path.kind is PathKind.PREFIX and hit != bare:
        yield bare or "/"


def _hosts(rule: Rule) -> Iterator[str]:
    if rule.host is None or ":" in rule.host.name:
        return
    name = rule.host.name
    yield from (name, f"x.{name}", f"y.x.{name}", f"x{name}", name.upper(), f"{name}.", f"{name}:8080")
    yield name.partition(".")[2] or NOWHERE


def _methods(rule: Rule) -> Iterator[str]:
    yield from rule.match.methods[1:]
    others = ("GET", "HEAD", "POST", "OPTIONS") if rule.match.methods else ("HEAD", "POST")
    yield from (m for m in others if m not in rule.match.methods)


def _lists(wanted: tuple[NamedMatch, ...], hit: tuple[tuple[str, str], ...]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Each pair once missing, empty, longer, behind another of its name, before another of its name."""
    for at, match in enumerate(wanted):
        name, value = hit[at]
        before, behind = hit[:at], hit[at + 1 :]
        yield before + behind
        for values in (("",), (value + "x",), ("other", value), (value, "other")):
            yield (*before, *((name, v) for v in values), *behind)
        if match.value.kind is ValueKind.EXACT and value.swapcase() != value:
            yield (*before, (name, value.swapcase()), *behind)
