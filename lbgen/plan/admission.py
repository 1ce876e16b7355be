"""What a listener and a route let in: sizes, and the client's address. All that the oracle knows of limits."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.plan.forwarding import is_trusted
from lbgen.plan.model import Forward
from lbgen.spec.quantities import write_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Route
    from lbgen.plan.request import ParsedRequest, Request


@dataclass(frozen=True, slots=True)
class Refusal:
    """One of these statuses; `reason` in a sentence."""

    statuses: tuple[int, ...]
    reason: str


def client_address(listener: Listener, peer: str, forwarded: tuple[str, ...]) -> str:
    """The client that `access` and `client_ip` mean. `forwarded` are the X-Forwarded-For lines; they count only as far
    as the listener trusts whoever wrote them, from the peer backwards. An element with a port is no address here."""
    client = peer
    for element in reversed([one.strip(" \t") for line in forwarded for one in line.split(",")]):
        if not is_trusted(listener, client) or not _is_address(element):
            break
        client = element
    return client


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone means nothing here


def target_refusal(listener: Listener, request: Request) -> Refusal | None:
    """The target's own limit, which is exact."""
    limit = listener.limits.target
    if limit is None or len(request.target) <= limit:
        return None
    return Refusal(
        (431, 414), f"the target has {len(request.target)} bytes, more than the {write_size(limit)} of limits.target"
    )


def listener_refusal(listener: Listener, request: Request, parsed: ParsedRequest) -> Refusal | None:
    """What is refused before any route is looked for, in this order: target, headers, access."""
    if (found := target_refusal(listener, request)) is not None:
        return found
    limit = listener.limits.headers
    size = sum(len(name) + len(value) + 4 for name, value in request.headers)
    if limit is not None and size > limit:
        return Refusal((431,), f"the headers have {size} bytes, more than the {write_size(limit)} of limits.headers")
    client = client_address(listener, request.client, parsed.lines("x-forwarded-for"))
    if listener.access is not None and not listener.access.admits(client):
        return Refusal((403,), f"the listener's access does not admit {client}")
    return None


def route_refusals(
    route: Route, listener: Listener, request: Request, parsed: ParsedRequest, *, preflight: bool = False
) -> Iterator[Refusal]:
    """Every rule of the route that the request breaks by itself; which of them is answered is not promised. A CORS
    preflight is answered before its body counts."""
    client = client_address(listener, request.client, parsed.lines("x-forwarded-for"))
    if route.access is not None and not route.access.admits(client):
        yield Refusal((403,), f"the route's access does not admit {client}")
    lengths = parsed.lines("content-length")
    # Nobody reads the body of a request that the proxy answers by itself: only a length that is told counts.
    unread = bool(parsed.lines("transfer-encoding")) and not isinstance(route.action, Forward)
    read = 0 if unread else len(request.body)
    size = int(lengths[0]) if lengths else read
    if route.max_body is not None and size > route.max_body and not preflight:
        yield Refusal((413,), f"the body has {size} bytes, more than the {write_size(route.max_body)} of max_body")


def shared_limit_statuses(route: Route) -> tuple[int, ...]:
    """Statuses that depend on what other requests do."""
    return (429,) if route.rate_limit is not None or route.concurrency is not None else ()
