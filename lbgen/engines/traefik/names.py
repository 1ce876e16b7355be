"""Names of Traefik's objects for a plan."""

from __future__ import annotations

from lbgen.plan.model import Listener

ADMIN = "lbgen-admin"
ACCESS_LOG = "access.log"
DRAIN = "lbgen-drain"  # the middleware of all requests where a runtime may replace this process
DRAIN_FILE = "dynamic/drain.yaml"
TLS_FILE = "dynamic/tls.yaml"
MARK = "~"  # between a name of the topology, which has none, and what distinguishes its copies
_SHARED = "+"  # of routers on several entry points, before whose names Traefik writes each entry point


def has_alias_headers(version: str) -> bool:
    """Whether entry points have aliasHeadersStrategy; 3.6 keeps all fields."""
    return version != "3.6"


def entry_point(listener: Listener) -> str:
    """The entry point of a listener, without dots, which Traefik reads as nesting."""
    return escape(listener.name)


def listener_name(entry_point: str) -> str:
    """The listener of an entry point."""
    return entry_point.replace("D", ".")


def suffix(listener: Listener | None, *, shared: bool) -> str:
    """What follows the name of a route in the name of its router: the first listener of routers that are written for it
    once more, and a mark where several listeners share them."""
    copy = f"{_SHARED if shared else ''}{listener.name if listener is not None else ''}"
    return f"{MARK}{copy}" if copy else ""


def own_router(what: str, listener: Listener) -> str:
    """A router that is of no route, such as that of what a listener refuses."""
    return f"{MARK}{what}{MARK}{listener.name}"


def route_of(routers: str, entry_point: str) -> str:
    """The route of a request by the `RouterName` of its line in the access log: the last of routers that are chained;
    "" for one of no route.
    A router on several entry points has an entry point before its name there, one below another router has not."""
    above, _, last = routers.rpartition("> ")
    name, _, copy = last.removesuffix("@file").partition(MARK)
    if name == f"{entry_point}-":  # before an own router
        return ""
    return name.removeprefix(f"{entry_point}-") if copy.startswith(_SHARED) and not above else name


def edge(listener: Listener) -> str:
    """The router, middleware and TLS options of a listener."""
    return f"edge-{escape(listener.name)}"


def escape(name: str) -> str:
    """A name without dots, still unique: names in a topology have no upper-case letters."""
    return name.replace(".", "D")
