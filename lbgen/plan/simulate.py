"""The oracle: what the contract says must happen to a request, worked out without any engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbgen.plan.model import HeaderEdits

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it is on the wire. `target` and header values are raw (latin-1 text, one character per byte);
    `headers` hold Host like any other line, in order. `listener` "" = the first L7 listener of the plan."""

    method: str = "GET"
    target: str = "/"
    headers: Headers = ()
    listener: str = ""
    client: str = "127.0.0.1"
    version: str = "1.1"  # 1.0 or 1.1
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Upstream:
    """What reaches an endpoint of `pool` (a `weight` share of the traffic). `headers` are all that arrive, names in
    lower case; a value of None means present, made by the proxy (X-Request-Id)."""

    pool: str
    weight: int
    method: str
    target: str
    host: str | None  # None: the request had none (HTTP/1.0); what the engine then sends is not promised
    headers: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Loser:
    """A rule that was tried before the winner, or after it, and why it did not serve the request."""

    rule: str
    route: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is set when the proxy answers by itself, else None and `upstreams` say what the endpoint gets.
    `response_edits` apply to what the client sees in both cases; `headers` are a proxy-made answer's before them."""

    route: str | None
    rule: str | None
    status: int | None
    reason: str  # one sentence: why
    body: str | None = None
    location: str | None = None
    headers: Headers = ()
    upstreams: tuple[Upstream, ...] = ()
    response_edits: HeaderEdits = field(default=HeaderEdits())
    losers: tuple[Loser, ...] = ()


def simulate(plan: Plan, request: Request) -> Outcome:
    """What `plan` does with `request`: route, rule, status or what reaches the endpoint, what the client sees.

    Raises KeyError when `request.listener` names no listener.
    """
    raise NotImplementedError
