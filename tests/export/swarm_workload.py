"""What the drills run on a swarm: examples whose endpoints are a service of it, and a balancer before the nodes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import lbgen
from lbgen.runtime.common.ports import free_port
from tests.support.swarm import Swarm, swarm

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ENGINES = ("haproxy", "nginx", "envoy")


@contextmanager
def swarm_with_endpoints(root: Path) -> Iterator[Swarm]:
    """A swarm with the service `app`, and a state directory of its own."""
    before = os.environ.get("LBGEN_STATE_DIR")
    with swarm(root, ENGINES) as made:
        os.environ["LBGEN_STATE_DIR"] = str(root / "state")
        made.endpoints("app", 2)
        yield made
    del os.environ["LBGEN_STATE_DIR"]
    if before is not None:
        os.environ["LBGEN_STATE_DIR"] = before


@dataclass(frozen=True)
class Example:
    """An example whose pools lead to `app`, with that engine: of the hybrid edge, behind its edge."""

    name: str
    engine: str

    def topology(self, number: int = 0, **more: Any) -> lbgen.Topology:
        """Version `number`: with checks where the engine has them, and retries."""
        path = ROOT / "examples" / self.name / "topology.yaml"
        written: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        written["containers"] = {"networks": ["app-net"]}
        if "tiers" in written:
            written["tiers"]["web"]["engine"] = self.engine
        for pool in written["pools"].values():
            if "tier" not in pool:
                pool["endpoints"] = [{"address": "app:9000"}]
                if self.engine != "nginx":
                    pool["health"] = {"active": {"interval": "1s", "timeout": "1s", "fall": 2, "rise": 1}}
        for route in written["routes"]:
            if "forward" in route and not {"db", "public"} & {*route.get("listeners", ())}:
                route["retries"] = {"max": 1, "on": ["connect_failure", "reset", "timeout"]}
                route["timeouts"] = {"connect": "500ms", "response": "700ms", "idle": "700ms"}
        last = next(x for x in written["routes"] if x["name"] in ("storefront", "shop"))
        last["response_headers"] = {"set": {"x-version": str(number)}}
        return lbgen.load(written | more)

    def up(self, number: int = 0, **more: Any) -> lbgen.Stack:
        tiers = "tiers" in self.topology().model.model_fields_set
        words = {"accept": ("all",)} if tiers else {"engine": self.engine}
        return lbgen.up(self.topology(number), runtime="swarm", **words, **more)


def front(addresses: list[str], port: int) -> lbgen.Topology:
    """The tier in front of the nodes: it checks them, and tries another one."""
    every = {"path": "/healthz", "interval": "1s", "timeout": "1s", "fall": 2, "rise": 1}
    checks = {"health": {"active": every}}
    return lbgen.load(
        {
            "version": 1,
            "name": "front",
            "listeners": {"web": {"port": port, "address": "127.0.0.1"}},
            "pools": {"nodes": {"endpoints": [{"address": f"{x}:8080"} for x in addresses], **checks}},
            "routes": [
                {
                    "name": "all",
                    "forward": "nodes",
                    "retries": {"max": 2, "on": ["connect_failure", "reset", "timeout", 502, 503, 504]},
                    # HAProxy before 3.0 waits for a response as long as for the rest of a body: the longer time.
                    "timeouts": {"connect": "500ms", "response": "1500ms", "idle": "1500ms"},
                }
            ],
        }
    )


@contextmanager
def in_front(nodes: Swarm) -> Iterator[tuple[str, int]]:
    """Where the tier in front listens."""
    port = free_port("127.0.0.1", 18_080)
    stack = lbgen.up(front(nodes.addresses, port), engine="haproxy", runtime="local", backends=False, seconds=6)
    try:
        yield "127.0.0.1", port
    finally:
        stack.down()
