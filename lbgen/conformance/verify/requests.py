"""Requests of a plan: matches, near misses and malformed ones, as cases that the oracle judges."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import NOWHERE, labelled_drafts, matching_draft, overlapping_drafts
from lbgen.conformance.transport import without_verification
from lbgen.conformance.verify.cases import (
    SERVER,
    distinct_client,
    has_http2_upstream,
    is_limited_by_client,
    route_requests,
    server_name_excuses,
)
from lbgen.conformance.verify.coverage import named
from lbgen.conformance.verify.handshakes import handshake_cases
from lbgen.conformance.verify.overlaps import overlaps
from lbgen.conformance.verify.route_policies import policy_requests
from lbgen.plan.conditions import SUBJECTS, Header, features_of
from lbgen.plan.features import Feature
from lbgen.plan.matching import mismatch
from lbgen.plan.model import Forward, Listener, Mode, Plan, Route, Rule
from lbgen.plan.request import Draft, RefusedError, Request, parse_request
from lbgen.plan.simulate import simulate
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL

# Targets that intermediaries read in two ways, and their plain neighbours.
AMBIGUOUS_PATHS = (
    *("//a", "/a//b", "/a/../b", "/a/./b", "/a%2Fb", "/a%5Cb", "/%61", "/%2e%2e/a", "/a%00b", "/a%zz"),
    *("/a\\b", "/a|b", "/a#b", "/a%20b"),
)
ANYBODY = ""  # whatever client the cases come from
_NOBODY = (ANYBODY, Request().client)
_PARTS = {"path": "path", **{each.label: each.word for each in SUBJECTS}}
_MOST_PAIRS = 2_000
_MOST_TRIED = 50 * _MOST_PAIRS  # where rules differ in their headers only, each pair must be looked at
_SPOOFED = (
    ("X-Forwarded-For", "192.0.2.66"),
    ("X-Forwarded-Proto", "gopher"),
    ("X-Forwarded-Host", "spoofed.invalid"),
    ("X-Forwarded-Port", "99"),
    ("X-Request-Id", "spoofed"),
)


@dataclass(frozen=True, slots=True)
class ClauseRequest:
    """A request and what part of the contract it tries; `fields` of the topology beside those of the clause."""

    clause: str
    request: Request
    fields: tuple[str, ...] = ()


def request_cases(plan: Plan, client: str, *, most: int, seed: int) -> tuple[Case, ...]:
    """At most `most` cases, every rule's own request among them; the rest is drawn by `seed` when there are more.

    `client` is the address they come from.
    """
    every: dict[Request, ClauseRequest] = {}
    local = client.startswith("127.")
    for ask in clause_requests(plan):
        request = replace(ask.request, client=client) if ask.request.client in _NOBODY else ask.request
        if local and not request.client.startswith("127."):
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
            replace(ask.request, client=distinct_client(n) or client)
            if limited and ask.request.client == client
            else ask.request,
            Expect(),
            features=(*excusing_features(ask), *_also(plan, ask.request)),
            transport=without_verification(plan.listener(ask.request.listener), ask.request),
            tries_fields=ask.fields,
        )
        for n, ask in enumerate(found, 1)
    )
    return (*requests, *_handshakes(plan, client))


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
        if any(e.backup and e.authority == upstream.endpoint for e in plan.pool(upstream.pool).endpoints):
            yield f"{Feature.STICKY}.backup"
    if has_http2_upstream(plan, request):
        yield SERVER


def clause_requests(plan: Plan) -> Iterator[ClauseRequest]:
    """Every request, the most telling first."""
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        known = rules(listener)
        for rule in known:
            for what, draft in labelled_drafts(rule):
                yield ClauseRequest(f"2.{what}", draft.request(listener.name), tuple(_fields(plan, rule, what)))
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


def _fields(plan: Plan, rule: Rule, what: str) -> Iterator[str]:
    """The fields of a rule that a draft tries: what it is near to miss, or does miss."""
    if what == "host":
        yield f"{named(plan, plan.route(rule.route).field)}.hosts"
    elif what in _PARTS:
        yield f"{named(plan, rule.field)}.{_PARTS[what]}"


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


def _around(plan: Plan, listener: Listener, hit: Request, route: Route) -> Iterator[ClauseRequest]:
    """What a route does with a request beside matching it."""
    if simulate(plan, hit).route != route.name:
        return
    for clause, request in policy_requests(plan, listener, route, replace(hit, client=ANYBODY)):
        yield ClauseRequest(clause, request)
    yield ClauseRequest(
        "4.query", replace(hit, target=hit.target + ("&" if "?" in hit.target else "?") + "a=1&b=%20c&a=2")
    )
    touched = sorted(set(_edited(route)))
    yield ClauseRequest("4.edits", replace(hit, headers=(*hit.headers, *((n, "sent") for n in touched))))
    edits = route.response_headers
    if edits.remove and isinstance(route.action, Forward):
        lines = [[name, "sent"] for name in (*edits.remove, *(name for name, _ in (*edits.set, *edits.add)))]
        answer = json.dumps({"mode": "fixed", "headers": lines, "body": "its own"})
        yield ClauseRequest("4.edits", replace(hit, headers=(*hit.headers, (CONTROL, answer))))
    yield ClauseRequest("4.underscores", replace(hit, headers=(*hit.headers, ("X_Lbgen_Sent", "1"))))
    yield ClauseRequest("4.forwarded", replace(hit, headers=(*hit.headers, *_SPOOFED)))
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


def _edited(route: Route) -> Iterator[str]:
    for edits in (route.request_headers, *(t.request_headers for t in getattr(route.action, "targets", ()))):
        yield from (name for name, _ in (*edits.set, *edits.add))
        yield from edits.remove


def excusing_features(ask: ClauseRequest) -> tuple[str, ...]:
    """Parts of clauses whose approximate verdict may excuse what an engine does with this request: no others do."""
    request = ask.request
    found = ["listener.access.route_headers"] if ask.clause == "5.access" else []
    if ask.clause.startswith(("3.", "5.limits")):
        found.append("framing.malformed.route_headers")
    names = [name.lower() for name, _ in request.headers if name.lower() != "cookie"]
    if len(set(names)) < len(names):
        matched = (*features_of(Header), Feature.REQUEST_HEADERS_ADD)
        found += [f"{feature}.lines" for feature in matched]
    if "://" in request.target:
        found += ["framing.malformed.absolute_host", "framing.malformed.absolute_port"]
    if "%zz" in request.target:
        found.append("framing.malformed.bad_escape")
    found += [f"framing.{method.lower()}" for method in ("CONNECT", "TRACE") if request.method == method]
    if request.method.islower():
        found.append("framing.method")
    if not any(name == "host" for name in names):
        found.append("framing.malformed.no_host")
    return tuple(found)
