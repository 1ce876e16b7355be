"""What the cases of a verification have in common: when they run, how long they may take, whom they ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import hit_of
from lbgen.plan.simulate import Request, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Route


class Phase(StrEnum):
    """What the endpoints do meanwhile. Cases of `CALM` run side by side, those of `ALONE` one by one."""

    CALM = "answer"
    HEAVY = "answer, to a few large bodies at a time"
    ALONE = "answer, one request at a time"
    REFUSED = "refuse connections"
    DROPPED = "drop connections"


@dataclass(frozen=True, slots=True)
class Planned:
    """A case, and when it runs."""

    case: Case
    phase: Phase = Phase.CALM


def around(milliseconds: float, tries: int = 1) -> tuple[int, int]:
    """From when to when something that takes so long is in time, in milliseconds."""
    return round(0.93 * milliseconds - 15), round(1.15 * milliseconds + 40 * tries)


def scripted(
    clause: str, script: str, request: Request, params: dict[str, Any], features: tuple[str, ...], *routes: str
) -> Planned:
    """A script as a case; `routes` are those it needs, `features` what may excuse it."""
    return Planned(Case("", clause, request, Expect(), features, script=script, params=params, routes=routes))


def with_headers(request: Request, *headers: tuple[str, str]) -> Request:
    """`request` with more headers."""
    return replace(request, headers=(*request.headers, *headers))


def hits(plan: Plan, listener: Listener, client: str) -> Iterator[tuple[Route, Request]]:
    """Each route with a request that it serves, for every host that has a table of its own: engines may write a route
    out for each of them."""
    for table in listener.hosts:
        seen = set()
        for rule in table.rules:
            draft = hit_of(rule)
            if draft is None or rule.route in seen:
                continue
            if table.host is not None:
                draft = replace(draft, host=f"x.{table.host.name}" if table.host.wildcard else str(table.host))
            request = replace(draft.request(listener.name), client=client)
            if simulate(plan, request).route == rule.route:
                seen.add(rule.route)
                yield plan.route(rule.route), request
