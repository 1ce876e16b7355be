"""`--runtime swarm` on a swarm of three nodes, under load: what is lost while it rolls, scales, drains and breaks.

Clients ask a tier in front that checks the nodes and tries another one; of those that ask a node itself, the number
that is lost is written down. Log lines have the figures: `--log-cli-level INFO`.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

import lbgen
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.judge import differences
from lbgen.conformance.own_answers import check_safe
from lbgen.conformance.verify.requests import request_cases
from lbgen.diagnostics import EngineError
from lbgen.engines.rendered import Rendered, with_texts
from lbgen.exporters import parts
from lbgen.plan.simulate import simulate
from lbgen.runtime import stacks
from lbgen.runtime.common.driver import Action
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.command import run_lbgen
from tests.support.daemon import IN_CONTAINERS
from tests.support.swarm import Swarm, swarm, why_unavailable
from tests.support.traffic import KEPT, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ENGINES = ("haproxy", "nginx", "envoy")
UPDATES = 20
MOST_REQUESTS = 400
MAIN = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf", "envoy": "envoy.yaml"}
OWN = {"nginx": (("server", "nginx"),), "envoy": (("server", "envoy"),)}  # headers of what they answer by themselves
LOG = logging.getLogger(__name__)
pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable()),
    pytest.mark.xdist_group("swarm"),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    root = tmp_path_factory.mktemp("swarm")
    before = os.environ.get("LBGEN_STATE_DIR")
    with swarm(root, ENGINES) as made:
        os.environ["LBGEN_STATE_DIR"] = str(root / "state")
        made.endpoints("app", 2)
        yield made
    del os.environ["LBGEN_STATE_DIR"]
    if before is not None:
        os.environ["LBGEN_STATE_DIR"] = before


@pytest.fixture
def clean(nodes: Swarm) -> Iterator[Swarm]:
    yield nodes
    for each in stacks.ps():
        each.down()
    left = [nodes.docker(kind, "ls", "--quiet", "--filter", "label=io.lbgen.swarm") for kind in ("service", "config")]
    assert left == ["", ""]


def example(name: str, engine: str | None, number: int = 0) -> lbgen.Topology:
    """An example whose endpoints are the service `app`, with checks where the engine has them and retries; `number` is
    that of a version."""
    written: dict[str, Any] = yaml.safe_load((ROOT / "examples" / name / "topology.yaml").read_text(encoding="utf-8"))
    written["containers"] = {"networks": ["app-net"]}
    for pool in written["pools"].values():
        if "tier" not in pool:
            pool["endpoints"] = [{"address": "app:9000"}]
            if engine not in ("nginx", None):
                pool["health"] = {"active": {"interval": "1s", "timeout": "1s", "fall": 2, "rise": 1}}
    for route in written["routes"]:
        if "forward" in route and "db" not in route.get("listeners", ()) and "public" not in route.get("listeners", ()):
            route["retries"] = {"max": 1, "on": ["connect_failure", "reset", "timeout"]}
            route["timeouts"] = {"connect": "500ms", "response": "700ms", "idle": "5s"}
    last = next(x for x in written["routes"] if x["name"] in ("storefront", "shop"))
    last["response_headers"] = {"set": {"x-version": str(number)}}
    return lbgen.load(written)


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
                    "timeouts": {"connect": "500ms", "response": "1500ms", "idle": "5s"},
                }
            ],
        }
    )


@pytest.fixture
def before(clean: Swarm) -> Iterator[tuple[str, int]]:
    """Where the tier in front listens."""
    port = free_port("127.0.0.1", 18_080)
    stack = lbgen.up(front(clean.addresses, port), engine="haproxy", runtime="local", backends=False, seconds=6)
    yield "127.0.0.1", port
    stack.down()


@contextmanager
def load(what: str, *places: tuple[str, int]) -> Iterator[list[Traffic]]:
    """Two clients on kept connections and two on new ones, at the places in turn, and what they lost."""
    at = [(places[n % len(places)], n % 2 == n // 2 % 2) for n in range(4)]
    seen = [Traffic(port, "app", 0.02, host, fresh, authority="shop.example") for (host, port), fresh in at]
    threads = [threading.Thread(target=each.client) for each in seen]
    begun = time.monotonic()
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        for one in seen:
            one.stop()
        for each in threads:
            each.join()
        how = Counter(text for one in seen for text in one.lost)
        bad, good = sum(how.values()), sum(one.good for one in seen)
        LOG.info("%s: %d lost of %d in %.0f s %s", what, bad, good + bad, time.monotonic() - begun, dict(how))
        if bad:
            _tell()


def _tell() -> None:
    """What the engines say of requests that failed and of endpoints that changed."""
    for stack in stacks.ps():
        lines = list(stacks.logs(stack.name))
        failed = [x for x in lines if x.record is not None and x.record["status"] in (None, *range(500, 600))]
        changed = [x for x in lines if x.record is None and any(y in x.text for y in ("is DOWN", "is UP", "no server"))]
        for each in (*failed[:8], *changed[-40:]):
            LOG.info("%s %s", each.source, each.record or each.text)


def lost(seen: list[Traffic]) -> list[str]:
    assert sum(one.good for one in seen) > 100
    return [text for one in seen for text in one.lost]


def nodes_places(clean: Swarm) -> list[tuple[str, int]]:
    return [(address, 8080) for address in clean.addresses]


def start(name: str, engine: str | None) -> lbgen.Stack:
    return lbgen.up(example(name, engine), engine=engine, runtime="swarm")


def test_a_stack_is_rolled_scaled_and_removed(clean: Swarm, before: tuple[str, int]) -> None:
    stack = start("shop", "haproxy")
    assert [x.name for x in stack.engines] == ["haproxy-n1", "haproxy-n2", "haproxy-n3"]
    assert not stack.unchanged
    assert start("shop", "haproxy").unchanged
    changed = example("shop", "haproxy", 1)
    assert [x.action for x in lbgen.preview(changed, by_reload=True).parts] == [Action.INTERRUPT]
    with load("shop on haproxy, one update", before) as seen:
        time.sleep(1)
        assert lbgen.reload(changed).reloaded
    assert not lost(seen)
    assert {line.source for line in stacks.requests("shop")} == {"haproxy-n1", "haproxy-n2", "haproxy-n3"}
    assert len(clean.docker("config", "ls", "--quiet", "--filter", "label=io.lbgen.swarm").split()) == 3, "old ones go"


def test_a_configuration_that_is_refused_is_rolled_back(
    clean: Swarm, before: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused("haproxy", before, monkeypatch)


@pytest.mark.drill
def test_commands_of_the_page(clean: Swarm, tmp_path: Path) -> None:
    """Those of docs/deploy.md, in their order."""
    page = (ROOT / "docs/deploy.md").read_text(encoding="utf-8").partition("## Swarm")[2]
    written = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    commands = [shlex.split(line.partition("#")[0]) for line in written]
    assert len(commands) > 5
    shutil.copy(ROOT / "examples/shop/topology.yaml", tmp_path / "shop.yaml")
    for _, *arguments in commands:
        done = run_lbgen(*arguments, cwd=tmp_path)
        assert not done.returncode, done.stderr


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_refused(engine: str, clean: Swarm, before: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    refused(engine, before, monkeypatch)


def refused(engine: str, before: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    start("shop", engine)
    render = parts.render_with

    def wrong(*arguments: Any) -> Rendered:
        found = render(*arguments)
        return with_texts(found, {MAIN[engine]: f"{found[MAIN[engine]]}\nno word of it\n"})

    with load(f"shop on {engine}, a configuration that is refused", before) as seen:
        time.sleep(1)
        with monkeypatch.context() as patch:
            patch.setattr(parts, "render_with", wrong)
            with pytest.raises(EngineError) as caught:
                lbgen.reload(example("shop", engine, 1))
        assert [x.code for x in caught.value.diagnostics] == ["LB413"]
        assert "no" in caught.value.diagnostics[0].message
        LOG.info("%s", caught.value)
        time.sleep(1)
    assert not lost(seen)
    assert start("shop", engine).unchanged


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_updates(engine: str, clean: Swarm, before: tuple[str, int]) -> None:
    start("shop", engine)
    with load(f"shop on {engine}, {UPDATES} updates", before) as seen:
        for number in range(UPDATES):
            assert lbgen.reload(example("shop", engine, number + 1)).reloaded
    assert not lost(seen)


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_drain(engine: str, clean: Swarm, before: tuple[str, int]) -> None:
    start("shop", engine)
    assert not drain(f"shop on {engine}", clean, before)


def drain(what: str, clean: Swarm, place: tuple[str, int]) -> list[str]:
    with load(f"{what}, a node drained and back", place) as seen:
        time.sleep(1)
        clean.availability(3, "drain")
        time.sleep(12)
        clean.availability(3, "active")
        time.sleep(12)
    return lost(seen)


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_cut_off(engine: str, clean: Swarm, before: tuple[str, int]) -> None:
    start("shop", engine)
    assert not cut_off(f"shop on {engine}", clean, before)


def cut_off(what: str, clean: Swarm, place: tuple[str, int]) -> list[str]:
    with load(f"{what}, a node cut off and back", place) as seen:
        time.sleep(2)
        clean.connected(3, to=False)
        time.sleep(40)
        clean.connected(3, to=True)
        time.sleep(15)
    return lost(seen)


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_endpoints_scaled(engine: str, clean: Swarm, before: tuple[str, int]) -> None:
    start("shop", engine)
    assert not scaled(f"shop on {engine}", clean, before)


def scaled(what: str, clean: Swarm, place: tuple[str, int]) -> list[str]:
    with load(f"{what}, endpoints 2-5-1-2", place) as seen:
        for number in (5, 1, 2):
            time.sleep(3)
            clean.scale("app", number)
        time.sleep(8)
    return lost(seen)


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_without_a_tier_in_front(engine: str, clean: Swarm) -> None:
    """Each node refuses connections for a moment, as LB310 says."""
    stack = start("shop", engine)
    assert [x for x in stack.warnings if x.code == "LB310" and "refuses connections" in x.message]
    with load(f"shop on {engine}, one update, nodes asked directly", *nodes_places(clean)) as seen:
        time.sleep(1)
        lbgen.reload(example("shop", engine, 1))
    assert 0 < len(lost(seen)) < sum(one.good for one in seen) / 2


@pytest.mark.drill
@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_answer_as_the_oracle_says(engine: str, clean: Swarm) -> None:
    """The requests of `lbgen verify`, to each node in turn, with stand-ins at the address of this machine."""
    host = clean.addresses[0].rpartition(".")[0] + ".1"
    written = yaml.safe_load((ROOT / "examples/shop/topology.yaml").read_text(encoding="utf-8"))
    stand_ins = []
    for name, pool in written["pools"].items():
        for number, endpoint in enumerate(pool["endpoints"]):
            stand_ins.append(StandIn(f"{name}-{number}", name, host, 19_100 + len(stand_ins)))
            endpoint["address"] = f"{host}:{stand_ins[-1].port}"
    topology = lbgen.load(written)
    plan = lbgen.plan(topology)
    cases = [x for x in request_cases(plan, host, most=MOST_REQUESTS, seed=1) if x.request.client == host]
    accept = ("all",) if engine == "nginx" else ()
    lbgen.up(topology, engine=engine, runtime="swarm", accept=accept)
    with stand_in_servers(stand_ins):
        wrong = []
        for case, address in zip(cases, cycle(clean.addresses), strict=False):
            outcome = simulate(plan, case.request)
            answer = fetch((address, 8080), case.request)
            if not outcome.well_formed:
                wrong += [(case.id, x) for x in check_safe(plan, case.request, answer)]
            else:
                wrong += [(case.id, x) for x in differences(case, outcome, answer, OWN.get(engine, ()))]
    LOG.info("shop on %s: %d requests to the nodes, %d differences", engine, len(cases), len(wrong))
    assert len(cases) > 100
    assert not wrong


@pytest.mark.drill
@pytest.mark.parametrize("web", ENGINES)
def test_hybrid_edge(web: str, clean: Swarm) -> None:
    """The nodes of tier web come and go behind the edge, which clients ask at the first node."""

    def version(number: int) -> lbgen.Topology:
        found = example("hybrid-edge", web, number)
        tiers = {**(found.model.tiers or {})}
        tiers["web"] = tiers["web"].model_copy(update={"engine": web})
        return replace(found, model=found.model.model_copy(update={"tiers": tiers}))

    place, what = (clean.addresses[0], 8080), f"hybrid-edge with {web}"
    lbgen.up(version(0), runtime="swarm", accept=("all",))
    with load(f"{what}, {UPDATES} updates", place) as seen:
        for number in range(UPDATES):
            assert lbgen.reload(version(number + 1)).reloaded
    bad = lost(seen)
    with load(f"{what}, tier web 3-5-2-3", place) as seen:
        for number in (5, 2, 3):
            lbgen.up(version(UPDATES), runtime="swarm", accept=("all",), replicas={"web": number})
    bad += lost(seen)
    bad += drain(what, clean, place)
    bad += cut_off(what, clean, place)
    bad += scaled(what, clean, place)
    # The edge passes bytes: a request that meets nginx as it closes an idle connection cannot be sent elsewhere.
    kept = [text for text in bad if text.endswith(KEPT)]
    assert len(kept) == len(bad)
    assert len(kept) <= UPDATES / 2
