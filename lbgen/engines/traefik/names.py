"""Objects of a plan -> the names that Traefik knows them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Pool, Route

PLUGIN = "lbgen"
MODULE = "lbgen.local/lbgen"
ADMIN = "lbgen-admin"
SERVICE_HEADER = "X-Lbgen-Service"


def entry_point(listener: Listener) -> str:
    """The entry point of a listener; dots would nest it."""
    return f"listener-{escaped(listener.name)}"


def edge(listener: Listener) -> str:
    """The parent router of a listener and the middleware on it."""
    return f"edge-{escaped(listener.name)}"


def pool(pool: Pool) -> str:
    """The service of a whole pool."""
    return f"pool-{escaped(pool.name)}"


def endpoint(pool: Pool, index: int) -> str:
    """The service and middleware of one endpoint.

    The index comes first: Traefik hashes source address plus this name with FNV-1a, in which a difference in the last
    byte hardly changes the value, so that weights would mean nothing.
    """
    return f"{index}-endpoint-{escaped(pool.name)}"


def split(route: Route) -> str:
    """The weighted service of a route that goes to several pools."""
    return f"split-{escaped(route.name)}"


def escaped(name: str) -> str:
    """A name without dots, still unique: topology names hold no upper-case letters."""
    return name.replace(".", "D")
