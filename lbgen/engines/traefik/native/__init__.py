"""Traefik without the plugin: its own routers, services and middlewares, where every guarantee is left to it."""

from __future__ import annotations

from lbgen.plan.guarantees import LEFT_TO_ENGINE
from lbgen.plan.model import Mode, Plan


def is_native(plan: Plan) -> bool:
    """Whether the plan is served without the plugin: all its L7 listeners leave all guarantees to the engine."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    return bool(level7) and all(listener.guarantees == LEFT_TO_ENGINE for listener in level7)
