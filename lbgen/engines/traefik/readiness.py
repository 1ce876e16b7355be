"""Readiness: Traefik listens before it reads its routes, and answers itself until the plugin has taken over a
listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.plugin import build_admin_route
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan

READY_PATH = "/lbgen/ready"


def find_probed_listeners(plan: Plan) -> list[str]:
    """The L7 listeners that the plugin can connect to: it has no client certificate."""
    return [
        listener.name
        for listener in plan.listeners
        if listener.mode is Mode.L7 and not (listener.tls is not None and listener.tls.client_required)
    ]


def build_ready_route(plan: Plan) -> dict[str, Data]:
    """The dynamic configuration of the plugin's readiness route; empty if it can probe no listener."""
    found: list[Data] = [*find_probed_listeners(plan)]
    return build_admin_route("lbgen-ready", READY_PATH, {"taken": found}) if found else {}
