"""Wait until an engine that listens also serves its routes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Protocol

from lbgen.conformance.corpus import NOWHERE, corpus
from lbgen.conformance.http2_client import fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.transport import DEFAULT, TransportOptions, transport_for
from lbgen.plan.model import Listener, Mode, Plan, Pool
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate

if TYPE_CHECKING:
    from lbgen.conformance.case import CaseFile

_READY_SECONDS = 8.0


class ServingEngine(Protocol):
    """A serving engine, as clients see it."""

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener answers; KeyError when there is none of that name."""
        ...

    def access_lines(self) -> list[str]:
        """The lines of its access log, others among them."""
        ...

    def ensure_alive(self) -> None:
        """EngineError with what it said last when it has ended."""
        ...


def unusual_pools(file: CaseFile, plan: Plan) -> set[str]:
    """Pools with an endpoint that a case file changes, or that is not an address."""

    def usual(pool: Pool) -> bool:
        names = {pool.name, *(f"{pool.name}-{number}" for number in range(len(pool.endpoints)))}
        return names.isdisjoint(file.stand_ins) and all(endpoint.is_ip for endpoint in pool.endpoints)

    return {pool.name for pool in plan.pools if not usual(pool)}


def wait_ready(
    plan: Plan,
    handle: ServingEngine,
    seconds: float = _READY_SECONDS,
    asked: Callable[[Listener], TransportOptions] = lambda listener: DEFAULT,
    avoid: Collection[str] = (),
) -> None:
    """Wait until each L7 listener answers a request as the oracle says: some engines listen before they know their
    routes. After `seconds` it is left to the cases to tell what is wrong. `asked`: what clients say on a listener;
    `avoid`: pools that are asked only where there is no other, as they may not answer."""
    deadline = time.monotonic() + seconds
    for request in readiness_requests(plan, avoid):
        _answers(plan, handle, request, asked, deadline)


def readiness_requests(plan: Plan, avoid: Collection[str] = ()) -> Iterator[Request]:
    """A request for each L7 listener; `avoid` as in `wait_ready`.

    Routes with a rate are not asked, as a case counts on all of their tokens. A listener that has no others is asked
    for TRACE: every engine refuses it, and one that has not loaded its routes answers 404."""
    waiting = {x.name for x in plan.listeners if x.mode is Mode.L7}
    for avoided in (avoid, ()):
        for request in corpus(plan):
            if not waiting:
                return
            if request.listener not in waiting or not request.client.startswith("127."):
                continue
            outcome = simulate(plan, request)
            if outcome.route is None or any(to.pool in avoided for to in outcome.upstreams):
                continue
            if plan.route(outcome.route).rate_limit is None:
                waiting.discard(request.listener)
                yield request
    for name in sorted(waiting):
        yield Request("TRACE", headers=(("Host", NOWHERE),), listener=name)


def _answers(
    plan: Plan, handle: ServingEngine, request: Request, asked: Callable[[Listener], TransportOptions], deadline: float
) -> None:
    outcome, listener = simulate(plan, request), plan.listener(request.listener)
    transport = transport_for(listener, request, asked(listener))
    while time.monotonic() < deadline:
        answer = fetch(handle.address(request.listener), request, timeout=2, transport=transport)
        own = answer.status == outcome.status or (not outcome.well_formed and answer.status != 404)
        if account_of(answer) is not None or (outcome.status is not None and answer.status is not None and own):
            return
        time.sleep(0.1)
