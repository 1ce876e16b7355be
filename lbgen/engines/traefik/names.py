"""Objects of a plan -> the names that Traefik knows them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Listener

PLUGIN = "lbgen"
MODULE = "lbgen.local/lbgen"
ADMIN = "lbgen-admin"
ACCESS_LOG = "access.log"


def entry_point(listener: Listener) -> str:
    """The entry point of a listener; dots would nest it."""
    return f"listener-{escape(listener.name)}"


def edge(listener: Listener) -> str:
    """The router of a listener and the middleware on it."""
    return f"edge-{escape(listener.name)}"


def escape(name: str) -> str:
    """A name without dots, still unique: topology names hold no upper-case letters."""
    return name.replace(".", "D")
