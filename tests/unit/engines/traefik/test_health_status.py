"""Health of endpoints by Traefik's list of services."""

from __future__ import annotations

import json

from lbgen.engines.health import Condition, State
from lbgen.engines.traefik import ENGINE

SERVICES = [
    {"name": "app@file", "serverStatus": {"http://10.0.0.1:80": "UP", "http://10.0.0.2:80": "DOWN"}},
    {"name": "app~slow@file", "serverStatus": {"http://10.0.0.1:80": "UP", "http://10.0.0.2:80": "UP"}},
    {"name": "route~split@file"},
    {"name": "api@internal"},
]


def test_an_endpoint_is_down_where_one_of_its_services_says_so():
    pools = {"app": ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"], "other": ["10.0.0.9:80"]}
    found = ENGINE.health(pools, {"/lbgen/endpoints": json.dumps(SERVICES)})
    assert found == {
        ("app", 0): Condition(State.UP),
        ("app", 1): Condition(State.DOWN, None, "its checks fail"),
        ("app", 2): Condition(State.DRAINING),
    }
