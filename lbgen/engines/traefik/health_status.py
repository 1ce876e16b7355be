"""Health of the endpoints of L7 pools, which the plugin reports on the admin entry point."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lbgen.engines.health import Condition, State
from lbgen.engines.traefik.native.health_status import STATUS_PATH, read_services
from lbgen.engines.traefik.plugin import build_admin_route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.engines.document import Data


def build_status_route() -> dict[str, Data]:
    """The dynamic configuration of the plugin's report."""
    return build_admin_route("lbgen-endpoints", STATUS_PATH, {"tells": True})


def read_health(pools: Mapping[str, Sequence[str]], answer: str) -> dict[tuple[str, int], Condition]:
    """The condition of each endpoint, by pool and index, which are the same in the plugin; Traefik itself lists
    services."""
    try:
        report = json.loads(answer)
    except ValueError:
        return {}
    if isinstance(report, list):
        return read_services(pools, report)
    return {
        (pool, place): Condition(State(each["state"]), each.get("since"), each.get("reason", ""))
        for pool in pools
        for place, each in enumerate(report.get(pool, ()))
    }
