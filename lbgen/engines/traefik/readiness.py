"""When Traefik serves: it listens before it reads its routes, and its own handlers serve until the plugin knocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.plugin import build_admin_route
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan

READY_PATH = "/lbgen/ready"


def find_probed_listeners(plan: Plan) -> list[str]:
    """The L7 listeners that the plugin can ask by itself: it has no certificate of a client."""
    return [
        listener.name
        for listener in plan.listeners
        if listener.mode is Mode.L7 and not (listener.tls is not None and listener.tls.client_required)
    ]


def build_ready_route(plan: Plan) -> dict[str, Data]:
    """The dynamic configuration by which the plugin tells it; empty when it would never be."""
    found: list[Data] = [*find_probed_listeners(plan)]
    return build_admin_route("lbgen-ready", READY_PATH, {"taken": found}) if found else {}
