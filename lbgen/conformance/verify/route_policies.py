"""Requests on either side of a route's policies: access, sizes, CORS, compression, sticky cookies."""

from __future__ import annotations

import json
from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.conformance.verify.cases import addresses, with_headers
from lbgen.conformance.verify.credentials import credential_requests
from lbgen.plan.admission import shared_limit_statuses
from lbgen.plan.error_pages import share_statuses
from lbgen.plan.forwarding import state_client
from lbgen.plan.model import Forward, Listener, Plan, Route
from lbgen.plan.policy import Access, Compression, Cors, Origin
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

_Labelled = tuple[str, "Request"]
MOST_BODY = 2 << 20  # bytes; beyond it only the announced length is tried
FORGED = (("X-Real-IP", "192.0.2.66"), ("Forwarded", "for=192.0.2.66;proto=gopher"))
_ELSEWHERE = "203.0.113.99"


def policy_requests(plan: Plan, listener: Listener, route: Route, hit: Request) -> Iterator[_Labelled]:
    """(clause, request) for everything that listener and route ask of a request beside matching it."""
    for access in (listener.access, route.access):
        if access is not None:
            yield from _clients(listener, access, hit)
    yield from credential_requests(route, hit)
    if listener.trusted_proxies:
        yield from _trusted(listener, hit)
    yield from _sizes(listener, hit)
    if route.max_body is not None:
        yield from _bodies(route.max_body, hit)
    if route.cors is not None:
        yield from _cors(route.cors, hit)
    if isinstance(route.action, Forward):
        if route.compression is not None:
            yield from _gzip(route.compression, hit)
        yield from _sticky(plan, route.action, hit)
        yield from _intercepted(plan, listener, route, route.action, hit)


def _clients(listener: Listener, access: Access, hit: Request) -> Iterator[_Labelled]:
    for client in dict.fromkeys((*addresses(access.deny), *addresses(access.allow or ()), _ELSEWHERE)):
        yield "5.access", replace(hit, client=client)
        for proxy in list(addresses(listener.trusted_proxies))[:1]:
            yield "5.access", replace(with_headers(hit, state_client(listener, client)), client=proxy)
        yield "5.access", with_headers(hit, state_client(listener, client))


def _trusted(listener: Listener, hit: Request) -> Iterator[_Labelled]:
    for proxy in addresses(listener.trusted_proxies):
        forwarded = (
            state_client(listener, "192.0.2.5", proxy),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Port", "8443"),
            ("X-Forwarded-Host", "told.example"),
            ("X-Request-Id", "told"),
        )
        yield "4.trusted", replace(with_headers(hit, *forwarded), client=proxy)
        yield "4.trusted", replace(hit, client=proxy)
        if listener.real_ip or listener.forwarded or listener.client_header is not None:
            yield "4.trusted", replace(with_headers(hit, state_client(listener, "2001:db8::5")), client=proxy)
            yield "4.trusted", replace(with_headers(hit, state_client(listener, "192.0.2.5"), *FORGED), client=proxy)


def _sizes(listener: Listener, hit: Request) -> Iterator[_Labelled]:
    limits = listener.limits
    if limits.target is not None:
        mark = "&" if "?" in hit.target else "?"
        for length in (limits.target, limits.target + 1):
            fill = length - len(hit.target) - 3
            if fill > 0:
                yield "5.limits.target", replace(hit, target=f"{hit.target}{mark}z={'z' * fill}")
    if limits.headers is not None:
        used = sum(len(n) + len(v) + 4 for n, v in hit.headers)
        clear = 1024 + len(hit.target)
        for length in (limits.headers - clear, 2 * limits.headers + clear):  # bounds hold within a factor of two
            lines: list[tuple[str, str]] = []
            left = length - used
            while left > 40:  # no line longer than engines take
                part = min(left, 4000)
                lines.append((f"x-fill-{len(lines)}", "z" * (part - 14)))
                left -= part
            if lines:
                yield "5.limits.headers", with_headers(hit, *lines)


def _bodies(limit: int, hit: Request) -> Iterator[_Labelled]:
    for size in (limit, limit + 1):
        if size <= MOST_BODY:
            body = replace(hit, method="POST", body=b"z" * size)
            yield "5.max_body", body
            if size > limit:
                chunked = replace(body, body=b"z" * (limit + 70_000))
                yield "5.max_body", with_headers(chunked, ("Transfer-Encoding", "chunked"))
        elif size > limit:
            yield "5.max_body", with_headers(replace(hit, method="POST"), ("Content-Length", str(size)))


def _cors(cors: Cors, hit: Request) -> Iterator[_Labelled]:
    origins = [*(_origin(origin) for origin in cors.origins), "https://elsewhere.invalid", "null"]
    for origin in dict.fromkeys(origins):
        yield "4.cors", with_headers(hit, ("Origin", origin))
        for method in dict.fromkeys((*cors.methods, "GET", "DELETE", "PATCH")):
            yield "4.cors.preflight", _preflight(hit, origin, method)
        for header in (*cors.headers, "x-elsewhere", "content-type"):
            yield "4.cors.preflight", _preflight(hit, origin, cors.methods[0], header)
        if cors.headers:
            yield "4.cors.preflight", _preflight(hit, origin, cors.methods[0], ", ".join(cors.headers))


def _origin(origin: Origin) -> str:
    if origin.any:
        return "https://any.example"
    return f"{origin.text}:4321" if origin.any_port else origin.text


def _preflight(hit: Request, origin: str, method: str, headers: str = "") -> Request:
    asked = [("Origin", origin), ("Access-Control-Request-Method", method)]
    if headers:
        asked.append(("Access-Control-Request-Headers", headers))
    return with_headers(replace(hit, method="OPTIONS"), *asked)


def _gzip(compression: Compression, hit: Request) -> Iterator[_Labelled]:
    accepts = ("Accept-Encoding", "gzip")
    least = compression.min_size
    for media in (*compression.types, "application/x-elsewhere"):
        for size in dict.fromkeys((max(least - 1, 1), max(least, 1), least + 2000)):
            answer = {"mode": "fixed", "headers": [["Content-Type", media]], "body": "text ", "size": size}
            yield "4.compression", with_headers(hit, accepts, (CONTROL, json.dumps(answer)))
    answer = {
        "mode": "fixed",
        "headers": [["Content-Type", compression.types[0]]],
        "body": "text ",
        "size": least + 2000,
    }
    yield "4.compression", with_headers(hit, (CONTROL, json.dumps(answer)))
    yield "4.compression", with_headers(hit, ("Accept-Encoding", "gzip;q=0, br"), (CONTROL, json.dumps(answer)))


def _intercepted(plan: Plan, listener: Listener, route: Route, action: Forward, hit: Request) -> Iterator[_Labelled]:
    """Endpoints' own errors, but where they would take an endpoint out."""
    if any(plan.pool(target.pool).passive is not None for target in action.targets):
        return
    left = set() if action.retries is None else set(action.retries.statuses)  # what would not be the answer alone
    left.update(shared_limit_statuses(route))
    for page, statuses in share_statuses(plan.error_pages(listener, route)):
        for status in [each for each in statuses if each not in left][:2]:
            answer = {"mode": "fixed", "status": status, "body": "its own\n"}
            clause = "5.intercept" if page.intercept else "5.own-status"
            yield clause, with_headers(hit, (CONTROL, json.dumps(answer)))


def _sticky(plan: Plan, action: Forward, hit: Request) -> Iterator[_Labelled]:
    for target in action.targets:
        pool = plan.pool(target.pool)
        if pool.sticky is not None:
            for value in (*(endpoint.cookie_value for endpoint in pool.endpoints), "0123456789abcdef", ""):
                yield "6.sticky", with_headers(hit, ("Cookie", f"{pool.sticky.cookie}={value}"))
