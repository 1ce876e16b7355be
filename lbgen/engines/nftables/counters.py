"""Named counters of connections: of a route at a listener, and of an endpoint. A change of rules keeps them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.api import Counts

if TYPE_CHECKING:
    from lbgen.plan.model import Protocol

ARGV = ("nft", "-j", "list", "counters")
_PREFIX = "lb_"


def route_counter(listener: str, route: str) -> str:
    """The counter of a route's connections at a listener."""
    return f"{_PREFIX}{listener}/{route}"


def endpoint_counter(protocol: Protocol, address: str, port: int) -> str:
    """The counter of an endpoint's connections. No other name has two slashes."""
    return f"{_PREFIX}{protocol.value}/{address.replace(':', '-')}/{port}"


def read(said: str) -> Counts:
    """What `nft` said of all counters. Raises ValueError, LookupError for anything else."""
    routes: Counter[tuple[str, str]] = Counter()
    endpoints: Counter[str] = Counter()
    for each in json.loads(said)["nftables"]:
        counter = each.get("counter")
        if counter is None or not counter["table"].startswith(_PREFIX):
            continue
        match counter["name"].removeprefix(_PREFIX).split("/"):
            case [listener, route]:
                routes[listener, route] += counter["packets"]
            case [_, address, port]:
                host = f"[{address.replace('-', ':')}]" if "-" in address else address
                endpoints[f"{host}:{port}"] += counter["packets"]
    return Counts(dict(routes), dict(endpoints))
