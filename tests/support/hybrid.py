"""A topology of tiers for tests on running engines: an L4 edge in front of L7 nodes."""

from __future__ import annotations

from typing import Any

import lbgen


def hybrid(name: str, port: int, *, edge: str = "haproxy", web: str = "nginx", replicas: int = 2) -> lbgen.Topology:
    """`edge` passes connections that come in at `port` to that many nodes of `web`; every route leads to the pool
    `app`, but for /old. What the edge's engine can, it does: checks, and the PROXY protocol."""
    kernel = edge == "nftables"
    nodes: dict[str, Any] = {"tier": "web"}
    http: dict[str, Any] = {"port": port + 1, "tier": "web"}
    if not kernel:
        nodes |= {"proxy_protocol": "v1" if edge == "nginx" else "v2"}
        nodes |= {"health": {"active": {"interval": "500ms", "timeout": "250ms", "fall": 2, "rise": 1}}}
        http |= {"proxy_protocol": "accept"}
    return lbgen.load(
        {
            "version": 1,
            "name": name,
            "tiers": {"edge": {"engine": edge}, "web": {"engine": web, "replicas": replicas}},
            "listeners": {"public": {"port": port, "mode": "l4", "tier": "edge"}, "http": http},
            "pools": {"nodes": nodes, "app": {"endpoints": [{"address": "10.9.0.1:80"}, {"address": "10.9.0.2:80"}]}},
            "accept": {"all": ["all"]},
            "routes": [
                {"name": "in", "listeners": ["public"], "forward": "nodes"},
                {"name": "old", "match": [{"path": {"exact": "/old"}}], "redirect": {"path": "/new"}},
                {"name": "rest", "forward": "app"},
            ],
        }
    )
