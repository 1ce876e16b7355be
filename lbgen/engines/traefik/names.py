"""Names of Traefik's objects for a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Listener

ADMIN = "lbgen-admin"
ACCESS_LOG = "access.log"
DRAIN = "lbgen-drain"  # the middleware of all requests where a runtime may replace this process
DRAIN_FILE = "dynamic/drain.yaml"
TLS_FILE = "dynamic/tls.yaml"
MARK = "~"  # between a name of the topology, which has none, and what distinguishes its copies


def has_alias_headers(version: str) -> bool:
    """Whether entry points have aliasHeadersStrategy; 3.6 keeps all fields."""
    return version != "3.6"


def entry_point(listener: Listener) -> str:
    """The entry point of a listener, without dots, which Traefik reads as nesting."""
    return escape(listener.name)


def listener_name(entry_point: str) -> str:
    """The listener of an entry point."""
    return entry_point.replace("D", ".")


def edge(listener: Listener) -> str:
    """The router, middleware and TLS options of a listener."""
    return f"edge-{escape(listener.name)}"


def escape(name: str) -> str:
    """A name without dots, still unique: names in a topology have no upper-case letters."""
    return name.replace(".", "D")
