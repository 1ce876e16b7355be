"""Refusals of the oracle: sizes, and the client's address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address

from msgspec import Struct

from lbgen.plan.forwarding import RFC_7239, is_trusted
from lbgen.plan.model import Forward, Listener, Route
from lbgen.plan.request import ParsedRequest, Request
from lbgen.spec.quantities import write_size

_FOR = re.compile(r'(?i:(?:^|;)\s*for)=(?:"\[([0-9a-fA-F:.]+)]"|"?([0-9.]+)"?)\s*(?:;|$)')


class Refusal(Struct, frozen=True):
    """An answer with one of these statuses; `reason` is a sentence."""

    statuses: tuple[int, ...]
    reason: str


def client_address(listener: Listener, peer: str, stated: tuple[str, ...]) -> str:
    """The client's address for rules, `access` and `client_ip`. `stated` are the lines in which trusted proxies state
    it; elements count from the end, as long as the address before them is trusted. An element with a port is no
    address."""
    client = peer
    for element in reversed([one.strip(" \t") for line in stated for one in line.split(",")]):
        if listener.client_header == RFC_7239:
            element = _node(element)
        if not is_trusted(listener, client) or not _is_address(element):
            break
        client = element
    return client


def _node(element: str) -> str:
    """What `for` says in an element of Forwarded, an IPv6 address without its brackets; empty where it says nothing."""
    found = _FOR.search(element)
    return "" if found is None else found[1] or found[2]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # addresses with a zone are not compared


def target_refusal(listener: Listener, request: Request) -> Refusal | None:
    """The refusal of a target above `limits.target`; the limit is exact."""
    limit = listener.limits.target
    if limit is None or len(request.target) <= limit:
        return None
    return Refusal(
        (431, 414), f"the target has {len(request.target)} bytes, more than the {write_size(limit)} of limits.target"
    )


def listener_refusal(listener: Listener, request: Request, parsed: ParsedRequest) -> Refusal | None:
    """The refusal before routing, checked in this order: target, headers, access."""
    if (found := target_refusal(listener, request)) is not None:
        return found
    limit = listener.limits.headers
    size = sum(len(name) + len(value) + 4 for name, value in request.headers)
    if limit is not None and size > limit:
        return Refusal((431,), f"the headers have {size} bytes, more than the {write_size(limit)} of limits.headers")
    if listener.access is not None and not listener.access.admits(parsed.client):
        return Refusal((403,), f"the listener's access does not admit {parsed.client}")
    return None


def route_refusals(
    route: Route, request: Request, parsed: ParsedRequest, *, preflight: bool = False
) -> Iterator[Refusal]:
    """Every limit of the route that the request itself violates; engines may answer any of them. A CORS preflight is
    answered before its body counts."""
    if route.access is not None and not route.access.admits(parsed.client):
        yield Refusal((403,), f"the route's access does not admit {parsed.client}")
    lengths = parsed.lines("content-length")
    # Engines do not read the body of a request that they answer themselves: only Content-Length counts.
    unread = bool(parsed.lines("transfer-encoding")) and not isinstance(route.action, Forward)
    read = 0 if unread else len(request.body)
    size = int(lengths[0]) if lengths else read
    if route.max_body is not None and size > route.max_body and not preflight:
        yield Refusal((413,), f"the body has {size} bytes, more than the {write_size(route.max_body)} of max_body")


def shared_limit_statuses(route: Route) -> tuple[int, ...]:
    """Statuses that depend on other requests."""
    return (429,) if route.rate_limit is not None or route.concurrency is not None else ()
