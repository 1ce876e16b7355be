"""Drills on a swarm of three nodes: what clients lose while versions, nodes and endpoints change.

The shop is on each node, and clients ask a tier in front that checks the nodes and tries another one. Of the hybrid
edge they ask the edge itself, at the first node.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml

import lbgen
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.judge import differences
from lbgen.conformance.own_answers import check_safe
from lbgen.conformance.verify.requests import request_cases
from lbgen.diagnostics import EngineError
from lbgen.plan.simulate import simulate
from lbgen.runtime import stacks
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.export.swarm_workload import ENGINES, ROOT, Example, in_front, swarm_with_endpoints
from tests.support.daemon import IN_CONTAINERS
from tests.support.drills import LEAST, REFUSED, Counts, DrillTable, clients
from tests.support.swarm import why_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.swarm import Swarm

UPDATES = int(os.environ.get("LBGEN_UPDATES", "20"))
TABLE = DrillTable("swarm")
_LOG = logging.getLogger(__name__)
MOST_REQUESTS = 400
OWN = {"nginx": (("server", "nginx"),), "envoy": (("server", "envoy"),)}  # headers of what they answer by themselves
pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.drill,
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable()),
    pytest.mark.xdist_group("swarm"),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    with swarm_with_endpoints(tmp_path_factory.mktemp("swarm")) as made:
        yield made


@dataclass(frozen=True)
class Rolled:
    """An example that runs, and where clients ask it."""

    nodes: Swarm
    example: Example
    place: tuple[str, int]

    @contextmanager
    def drill(self, what: str) -> Iterator[Counts]:
        """Clients for as long as the block lasts; none of them may lose a request."""
        with clients(self.place) as counts:
            yield counts
        if counts.lost:
            _log_failures(self.example.topology().model.name)
        TABLE.expect_none_lost(what, f"{self.example.name} {self.example.engine}", counts)


def _log_failures(stack: str) -> None:
    """What the engines of a stack wrote of requests that failed, and of endpoints that changed."""
    lines = list(stacks.logs(stack))
    failed = [x for x in lines if x.record is not None and x.record["status"] in (None, *range(500, 600))]
    changed = [x for x in lines if x.record is None and any(y in x.text for y in ("is DOWN", "is UP", "no server"))]
    for each in (*failed[:8], *changed[-40:]):
        _LOG.info("%s %s", each.source, each.record or each.text)


@pytest.fixture(
    params=[Example(name, engine) for name in ("shop", "hybrid-edge") for engine in ENGINES],
    ids=lambda x: f"{x.name}-{x.engine}",
    scope="module",
)
def rolled(request: pytest.FixtureRequest, nodes: Swarm) -> Iterator[Rolled]:
    example: Example = request.param
    stack = example.up()
    if example.name == "shop":
        with in_front(nodes) as place:
            yield Rolled(nodes, example, place)
    else:
        yield Rolled(nodes, example, (nodes.addresses[0], 8080))
    stack.down()


def test_updates(rolled: Rolled) -> None:
    with rolled.drill(f"{UPDATES} updates"):
        for number in range(UPDATES):
            assert lbgen.reload(rolled.example.topology(number + 1)).reloaded


def test_a_configuration_that_the_engine_refuses(rolled: Rolled) -> None:
    example = rolled.example
    rolled.example.up(1)
    with rolled.drill("refused configuration"):
        with pytest.raises(EngineError, match="LB413"):
            lbgen.reload(example.topology(2, engines={example.engine: REFUSED[example.engine]}))
        assert example.up(1).unchanged


def test_endpoints_are_scaled(rolled: Rolled) -> None:
    with rolled.drill("endpoints 2-5-1-2"):
        for number in (5, 1, 2):
            time.sleep(3)
            rolled.nodes.scale("app", number)
        time.sleep(8)


def test_a_tier_is_scaled(rolled: Rolled) -> None:
    if rolled.example.name == "shop":
        pytest.skip("each node has one engine of the shop")
    with rolled.drill("tier 3-5-2-3"):
        for number in (5, 2, 3):
            rolled.example.up(1, replicas={"web": number})


def test_a_node_is_drained(rolled: Rolled) -> None:
    with rolled.drill("drain and back"):
        rolled.nodes.availability(3, "drain")
        time.sleep(12)
        rolled.nodes.availability(3, "active")
        time.sleep(12)


def test_a_node_is_cut_off(rolled: Rolled) -> None:
    with rolled.drill("node cut off"):
        time.sleep(1)
        rolled.nodes.connected(3, to=False)
        time.sleep(40)
        rolled.nodes.connected(3, to=True)
        time.sleep(15)


@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_without_a_tier_in_front(engine: str, nodes: Swarm) -> None:
    """Each node refuses connections for a moment, as LB310 says."""
    example = Example("shop", engine)
    stack = example.up()
    assert [x for x in stack.warnings if x.code == "LB310" and "refuses connections" in x.message]
    with clients(*((address, 8080) for address in nodes.addresses)) as counts:
        lbgen.reload(example.topology(1))
    TABLE.add("an update, nodes asked directly", f"shop {engine}", counts)
    stack.down()
    assert counts.good > LEAST
    assert 0 < len(counts.lost) < counts.good


@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_answer_as_the_oracle_says(engine: str, nodes: Swarm) -> None:
    """The requests of `lbgen verify`, to each node in turn, with stand-ins at the address of this machine."""
    host = nodes.addresses[0].rpartition(".")[0] + ".1"
    topology, stand_ins = _with_stand_ins(host)
    plan = lbgen.plan(topology)
    cases = [x for x in request_cases(plan, host, most=MOST_REQUESTS, seed=1) if x.request.client == host]
    stack = lbgen.up(topology, engine=engine, runtime="swarm", accept=("all",) if engine == "nginx" else ())
    wrong = []
    with stand_in_servers(stand_ins):
        for number, case in enumerate(cases):
            outcome = simulate(plan, case.request)
            answer = fetch((nodes.addresses[number % len(nodes.addresses)], 8080), case.request)
            if not outcome.well_formed:
                wrong += [(case.id, x) for x in check_safe(plan, case.request, answer)]
            else:
                wrong += [(case.id, x) for x in differences(case, outcome, answer, OWN.get(engine, ()))]
    TABLE.add("verify", f"shop {engine}", f"{len(cases)} requests, {len(wrong)} differences")
    stack.down()
    assert len(cases) > LEAST
    assert not wrong


def _with_stand_ins(host: str) -> tuple[lbgen.Topology, list[StandIn]]:
    """The shop with its endpoints at an address of this machine."""
    written = yaml.safe_load((ROOT / "examples/shop/topology.yaml").read_text(encoding="utf-8"))
    stand_ins: list[StandIn] = []
    for name, pool in written["pools"].items():
        for number, endpoint in enumerate(pool["endpoints"]):
            stand_ins.append(StandIn(f"{name}-{number}", name, host, 19_100 + len(stand_ins)))
            endpoint["address"] = f"{host}:{stand_ins[-1].port}"
    return lbgen.load(written), stand_ins
