"""Requests of a plan: matches, near misses and malformed ones, as cases that the oracle judges."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE, labelled_drafts, matching_draft, overlapping_drafts
from lbgen.conformance.expected_difference import escape_target
from lbgen.conformance.transport import without_verification
from lbgen.conformance.verify.cases import (
    SERVER,
    STICKY,
    distinct_client,
    has_http2_upstream,
    is_limited_by_client,
    is_served,
    listed_addresses,
    route_requests,
    server_name_excuses,
)
from lbgen.conformance.verify.coverage import named
from lbgen.conformance.verify.credentials import with_credentials
from lbgen.conformance.verify.handshakes import handshake_cases
from lbgen.conformance.verify.route_policies import FORGED, policy_requests
from lbgen.plan.conditions import Cookie, Header, Query, features_of
from lbgen.plan.forwarding import client_fields, state_client
from lbgen.plan.matching import mismatch
from lbgen.plan.model import Forward, Listener, Mode, Plan, Route, Rule
from lbgen.plan.path_conditions import places, start_lengths
from lbgen.plan.paths import path_to_match
from lbgen.plan.policy import Paths
from lbgen.plan.precedence import covering_hosts, group
from lbgen.plan.request import Draft, RefusedError, Request, parse_request
from lbgen.plan.route_values import route_facts
from lbgen.plan.simulate import simulate
from lbgen.plan.values import Fact
from lbgen.runtime.standins.http1 import CONTROL

# Targets that intermediaries read in two ways, and their plain neighbours.
AMBIGUOUS_PATHS = (
    *("//a", "/a//b", "/a/../b", "/a/./b", "/a%2Fb", "/a%5Cb", "/%61", "/%2e%2e/a", "/a%00b", "/a%zz"),
    *("/a\\b", "/a|b", "/a#b", "/a%20b"),
)
ANYBODY = ""  # whatever client the cases come from
_NOBODY = (ANYBODY, Request().client)
_STRICT = Paths()
_SET_ELSEWHERE = ("host", "connection", "content-length", "transfer-encoding", "te", "upgrade", "cookie")
_MOST_PAIRS = 2_000
_MOST_TRIED = 50 * _MOST_PAIRS  # where rules differ in their headers only, each pair must be looked at
_SPOOFED = (
    ("X-Forwarded-For", "192.0.2.66"),
    ("X-Forwarded-Proto", "gopher"),
    ("X-Forwarded-Host", "spoofed.invalid"),
    ("X-Forwarded-Port", "99"),
    ("X-Request-Id", "spoofed"),
)


def _spoofed(listener: Listener) -> tuple[tuple[str, str], ...]:
    """Fields that say who asks, of a client that nobody trusts."""
    own = client_fields(listener)
    lines = [*_SPOOFED, *(line for line in FORGED if line[0].lower() in own)]
    return (*lines, state_client(listener, "192.0.2.66")) if listener.client_header else tuple(lines)


class ClauseRequest(Struct, frozen=True):
    """A request and what part of the contract it tries; `fields` of the topology beside those of the clause."""

    clause: str
    request: Request
    fields: tuple[str, ...] = ()


def request_cases(plan: Plan, client: str, *, most: int, seed: int, handshakes: bool = True) -> tuple[Case, ...]:
    """At most `most` cases, every rule's own request among them; the rest is drawn by `seed` when there are more.

    `client` is the address they come from. `handshakes`: with those of TLS, which read the certificates' files.
    """
    every: dict[Request, ClauseRequest] = {}
    local = client.startswith("127.")
    for ask in _asked(plan, client):
        request = ask.request
        if (local and not request.client.startswith("127.")) or ":" in request.client:
            continue  # no such address is ours
        known = every.get(request)
        every[request] = (
            replace(ask, request=request) if known is None else replace(known, fields=(*known.fields, *ask.fields))
        )
    found = list(every.values())
    if len(found) > most:
        first = [ask for ask in found if ask.clause in ("2.rule", "2.order")]
        kinds: dict[tuple[object, ...], ClauseRequest] = {}  # one of each field and clause of each route
        for ask in found:
            route = simulate(plan, ask.request).route if not ask.fields else ""
            kinds.setdefault((ask.clause, ask.request.listener, route, *ask.fields), ask)
        first = list(dict.fromkeys((*first, *kinds.values())))[:most]
        chosen = set(first)
        others = [ask for ask in found if ask not in chosen]
        drawn = random.Random(seed).sample(range(len(others)), max(0, most - len(first)))  # noqa: S311  # no secret
        found = [*first, *(others[i] for i in sorted(drawn))]
    limited = not local and any(is_limited_by_client(route) for route in plan.routes)
    requests = tuple(
        Case(
            f"{ask.clause}/{n}",
            ask.clause,
            _from_another(plan, ask.request, n) if limited and ask.request.client == client else ask.request,
            Expect(),
            features=(*_of_spelling(ask.request), *_also(plan, ask.request)),
            transport=without_verification(plan.listener(ask.request.listener), ask.request),
            tries_fields=ask.fields,
        )
        for n, ask in enumerate(found, 1)
    )
    return (*requests, *(_handshakes(plan, client) if handshakes else ()))


def _from_another(plan: Plan, request: Request, number: int) -> Request:
    """The request of a client that no other case has, unless rules ask for this one."""
    other = replace(request, client=distinct_client(number) or request.client)
    return other if simulate(plan, other).route == simulate(plan, request).route else request


def _handshakes(plan: Plan, client: str) -> Iterator[Case]:
    for listener in plan.listeners:
        hit = next((request for _, request in route_requests(plan, listener, client)), None)
        if listener.mode is Mode.L7 and hit is not None:
            for n, case in enumerate(handshake_cases(listener, hit), 1):
                features = (*case.features, *_also(plan, case.request))
                yield replace(case, id=f"{case.clause} {listener.name}/{n}", features=features)


def _also(plan: Plan, request: Request) -> Iterator[str]:
    """What excuses a difference because of where the request goes."""
    yield from server_name_excuses(plan.listener(request.listener), request)
    for upstream in simulate(plan, request).upstreams:
        if plan.pool(upstream.pool).sticky is not None:
            yield STICKY
        if any(e.backup and e.authority == upstream.endpoint for e in plan.pool(upstream.pool).endpoints):
            yield "pool.sticky.backup"
    if has_http2_upstream(plan, request):
        yield SERVER


def _asked(plan: Plan, client: str) -> Iterator[ClauseRequest]:
    """Every request from `client`, unless it has one of its own; those to guarded routes with credentials as well."""
    guarded = any(route.auth is not None for route in plan.routes)
    for ask in clause_requests(plan):
        request = replace(ask.request, client=client) if ask.request.client in _NOBODY else ask.request
        yield replace(ask, request=request)
        if guarded and (name := simulate(plan, request).route):
            yield replace(ask, request=with_credentials(plan.route(name), request))


def clause_requests(plan: Plan) -> Iterator[ClauseRequest]:
    """Every request, the most telling first."""
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        known = rules(listener)
        for rule in known:
            for what, draft, field in labelled_drafts(rule):
                yield ClauseRequest(f"2.{what}", draft.request(listener.name), tuple(_fields(plan, rule, field)))
        yield from _orders(listener, known)
        for rule in known:
            hit = matching_draft(rule)
            if hit is not None:
                yield from _around(plan, listener, hit.request(listener.name), plan.route(rule.route))
        nowhere = Draft("GET", NOWHERE, "/").request(listener.name)
        yield ClauseRequest("2.host", nowhere)
        yield ClauseRequest("3.http10", replace(nowhere, headers=(), version="1.0"))
        for path in AMBIGUOUS_PATHS:
            yield ClauseRequest("3.paths", replace(nowhere, target=path))
        for method in ("TRACE", "get"):
            yield ClauseRequest("3.method", replace(nowhere, method=method))
        there = f"{NOWHERE}:80"
        yield ClauseRequest("3.method", replace(nowhere, method="CONNECT", target=there, headers=(("Host", there),)))
        yield ClauseRequest("3.host", replace(nowhere, target=f"http://{NOWHERE}/a"))
        yield ClauseRequest("3.host", replace(nowhere, target="http://other.invalid/a"))
        yield ClauseRequest("3.host", replace(nowhere, headers=(("Host", f"{NOWHERE}:99x"),)))


def _fields(plan: Plan, rule: Rule, field: str) -> Iterator[str]:
    """The field of a rule that a draft tries: what it is near to miss, or does miss."""
    if field:
        yield f"{named(plan, plan.route(rule.route).field if field == 'hosts' else rule.field)}.{field}"


def rules(listener: Listener) -> list[Rule]:
    """All rules of an L7 listener in the order of trial."""
    found = {rule.rank: rule for table in listener.hosts for rule in table.rules}
    return [found[rank] for rank in sorted(found)]


def _orders(listener: Listener, known: list[Rule]) -> Iterator[ClauseRequest]:
    """For two rules of different routes that one request fulfils: that request."""
    left = _MOST_PAIRS
    for one, other in islice(overlaps(known), _MOST_TRIED):
        if one.route == other.route:
            continue
        for draft in overlapping_drafts(one, other):
            request = draft.request(listener.name)
            try:
                parsed = parse_request(request)
            except RefusedError:
                continue
            if mismatch(one, parsed) is None and mismatch(other, parsed) is None:
                yield ClauseRequest("2.order", request)
                left -= 1
        if left <= 0:
            return


def overlaps(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Pairs of rules whose hosts overlap, and of which one covers the example path of the other; in the order of
    `itertools.combinations(rules, 2)`. Rules of a pattern without an example are in no pair."""
    paths = [None if (hit := matching_draft(rule)) is None else hit.path for rule in rules]
    starts = start_lengths(rule.match.path for rule in rules)
    index = group(
        (key, at)
        for at, (rule, path) in enumerate(zip(rules, paths, strict=True))
        if path is not None
        for host in _places(rule)
        for key in ((*host, rule.match.path.place), *((*host, ("at", each)) for each in _covers(path, starts)))
    )
    for at, (rule, path) in enumerate(zip(rules, paths, strict=True)):
        if path is None:
            continue
        texts: list[Hashable] = [("at", rule.match.path.place), *_covers(path, starts)]
        hosts: list[tuple[Hashable, ...]] = [
            *(("of", host) for host in covering_hosts(rule.host)),
            ("below", rule.host),
        ]
        found = (index.get((*host, text), ()) for host in hosts for text in texts)
        last = at
        for other in merge(*(each[bisect_right(each, at) :] for each in found)):
            if other != last:
                yield rule, rules[other]
            last = other


def _places(rule: Rule) -> Iterator[tuple[Hashable, ...]]:
    """Where rules of the same host, of narrower ones and of wider ones look for this one."""
    yield "of", rule.host
    yield from (("below", host) for host in covering_hosts(rule.host) if host != rule.host)


def _covers(path: str, starts: Sequence[int]) -> Iterator[Hashable]:
    """What may cover `path`."""
    return places(path_to_match(path, _STRICT), path, starts)


def _around(plan: Plan, listener: Listener, hit: Request, route: Route) -> Iterator[ClauseRequest]:
    """What a route does with a request beside matching it, from an address that is let in."""
    asked = (replace(hit, client=client) for client in (hit.client, *listed_addresses(listener, route)))
    served = next((each for each in asked if is_served(plan, route, each)), None)
    if served is None:
        return
    hit = with_credentials(route, served)
    for clause, request in policy_requests(
        plan, listener, route, replace(hit, client=ANYBODY if hit.client in _NOBODY else hit.client)
    ):
        yield ClauseRequest(clause, request)
    yield ClauseRequest(
        "4.query", replace(hit, target=hit.target + ("&" if "?" in hit.target else "?") + "a=1&b=%20c&a=2")
    )
    yield from _values(hit, route)
    touched = sorted(set(_edited(route)))
    yield ClauseRequest("4.edits", replace(hit, headers=(*hit.headers, *((n, "sent") for n in touched))))
    edits = route.response_headers
    if edits.remove and isinstance(route.action, Forward):
        lines = [[name, "sent"] for name in (*edits.remove, *(name for name, _ in (*edits.set, *edits.add)))]
        answer = json.dumps({"mode": "fixed", "headers": lines, "body": "its own"})
        yield ClauseRequest("4.edits", replace(hit, headers=(*hit.headers, (CONTROL, answer))))
    yield ClauseRequest("4.underscores", replace(hit, headers=(*hit.headers, ("X_Lbgen_Sent", "1"))))
    yield ClauseRequest("4.forwarded", replace(hit, headers=(*hit.headers, *_spoofed(listener))))
    yield ClauseRequest(
        "4.hop", replace(hit, headers=(*hit.headers, ("Keep-Alive", "5"), ("Proxy-Connection", "x"), ("TE", "gzip")))
    )
    if listener.http2:
        yield ClauseRequest("4.http2", replace(hit, version="2"))
    if not isinstance(route.action, Forward):
        return
    if listener.http2:
        yield ClauseRequest("4.http2", replace(hit, version="2", method="POST", body=b"some body, 24 bytes long"))
    for method in ("POST", "PUT"):
        body = replace(hit, method=method, body=b"some body, 24 bytes long")
        yield ClauseRequest("4.body", body)
        yield ClauseRequest("4.body", replace(body, headers=(*hit.headers, ("Transfer-Encoding", "chunked"))))
    yield ClauseRequest("4.expect", replace(hit, headers=(*hit.headers, ("Accept-Encoding", "br"), ("Accept", "*/*"))))


def _values(hit: Request, route: Route) -> Iterator[ClauseRequest]:
    """What the route's values hold: header fields and cookies that a client sends, plain and with characters that mean
    something to engines."""
    facts = route_facts(route)
    names = sorted(each.name for each in facts if each.fact is Fact.HEADER)
    cookies = sorted(each.name for each in facts if each.fact is Fact.COOKIE)
    if not facts:
        return
    for value in ("sent", "$host %[src] %REQ(:path)% {{x}} 'a' #"):
        headers = [(name, value) for name in names if name not in _SET_ELSEWHERE]
        headers += [("Cookie", f"{name}={value}") for name in cookies]
        if headers:
            yield ClauseRequest("4.values", replace(hit, headers=(*hit.headers, *headers)))


def _edited(route: Route) -> Iterator[str]:
    for edits in (route.request_headers, *(t.request_headers for t in getattr(route.action, "targets", ()))):
        yield from (name for name, _ in (*edits.set, *edits.add))
        yield from edits.remove


def _of_spelling(request: Request) -> Iterator[str]:
    """Parts of clauses whose verdict may excuse what an engine makes of a header that comes on several lines, of
    parameters and cookies that are there more than once, and of characters that a target should have escaped."""
    if escape_target(request.target) != request.target:
        yield "route.redirect.escapes"
    lines = [name.lower() for name, _ in request.headers if name.lower() != "cookie"]
    if len(set(lines)) < len(lines):
        yield from (f"{feature}.lines" for feature in (*features_of(Header), "route.request_headers.add"))
    cookies = "; ".join(value for name, value in request.headers if name.lower() == "cookie")
    for subject, text, mark in ((Query, request.target.partition("?")[2], "&"), (Cookie, cookies, ";")):
        given = [part.partition("=")[0].strip() for part in text.split(mark)]
        if len(set(given)) < len(given):
            yield from (f"{feature}.{part}" for feature in features_of(subject) for part in ("routes", "repeated"))
