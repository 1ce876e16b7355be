"""Access lists: of a listener and of a route, and the answers of routers by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.matching import NO_CLIENT, call
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.policy import Access

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def answer_with(status: int) -> dict[str, Data]:
    """The middleware that answers every request with this status and its phrase: an access list that admits none."""
    return {"ipAllowList": {"sourceRange": [NO_CLIENT], "rejectStatusCode": status}}


def build_access(access: Access) -> dict[str, Data]:
    """The access list without what is denied; see `denied_clients`. Empty when all the others are admitted."""
    if access.allow is None:
        return {}
    return {"ipAllowList": {"sourceRange": list(access.allow) or [NO_CLIENT]}}


def denied_clients(access: Access | None) -> str:
    """The condition of a router for the clients that the list denies; "" for none."""
    return " || ".join(call("ClientIP", network) for network in access.deny) if access is not None else ""


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.route.access is not None:
        yield "access", build_access(at.route.access)


ACCESS = Contributor(middlewares=_middlewares, answers=True, by_client=lambda _, route: route.access is not None)
