"""Tiers as local processes: an edge that knows its nodes, nodes that know their clients, and numbers that change."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError, LbgenError, UsageError
from lbgen.runtime import registry
from lbgen.runtime.common import ports
from lbgen.runtime.local.spawn import processes_in
from lbgen.runtime.tiers import group
from tests.engines.test_local_runtime import need
from tests.support.hybrid import hybrid
from tests.support.sample import sample
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_700
CLIENT = "127.0.0.77"
NAME = "tiered"


@pytest.fixture(autouse=True)
def engines_here() -> None:
    for name in ("haproxy", "nginx"):
        need(name)


def ask(path: str = "/x", port: int = PORT) -> tuple[int, dict[str, str], dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5, source_address=(CLIENT, 0))
    try:
        connection.request("GET", path, headers={"Host": "shop.example"})
        answer = connection.getresponse()
        text = answer.read()
        told = json.loads(text) if answer.status == 200 else {}
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, told
    finally:
        connection.close()


def served(stack: lbgen.Stack, nodes: int, least: int = 1) -> bool:
    """Whether the log of each node shows so many requests, sooner or later: logs are written in blocks."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = Counter(line.source for line in api.requests(stack.name))
        if all(found[f"web-{n + 1}"] >= least for n in range(nodes)):
            return True
        time.sleep(0.2)
    return False


def test_an_edge_in_front_of_three_nodes(state_dir: Path) -> None:
    topology = hybrid(NAME, PORT, replicas=3)
    stack = lbgen.up(topology, runtime="local")
    assert [x.name for x in stack.engines] == ["edge-1", "web-1", "web-2", "web-3"]
    assert stack.url("public") == f"tcp://127.0.0.1:{PORT}"
    for _ in range(12):
        status, _, told = ask()
        assert (status, told["pool"]) == (200, "app")
        sent = {name.lower(): value for name, value in told["headers"]}  # type: ignore[attr-defined]
        assert (sent["x-forwarded-for"], sent["x-forwarded-port"]) == (CLIENT, str(PORT))
    assert ask("/old")[1]["location"] == f"http://shop.example:{PORT}/new"
    assert served(stack, 3, least=4)
    assert lbgen.up(topology, runtime="local").unchanged
    (found,) = api.ps()
    assert (found.name, found.alive, len(found.as_dict()["tiers"])) == (NAME, True, 4)  # type: ignore[arg-type]
    api.down(NAME)
    assert not list(state_dir.glob("stacks/*"))
    assert not list(state_dir.glob("tiers/*"))
    assert api.ps() == ()


@pytest.mark.parametrize("edge", sample(["haproxy", "envoy"], ["haproxy"]))
def test_the_number_of_nodes_changes_and_no_request_is_lost(edge: str) -> None:
    need(edge)
    topology = hybrid(NAME, PORT, edge=edge)
    first = lbgen.up(topology, runtime="local")
    with traffic(PORT, pause=0.03) as seen:
        more = lbgen.up(topology, runtime="local", replicas={"web": 4})
        assert more.reloaded
        assert len(more.engines) == 5
        for _ in range(16):  # on new connections: the kept ones stay where they are
            assert ask()[0] == 200
        assert served(more, 4, least=4)
        less = lbgen.up(topology, runtime="local", replicas={"web": 1})
        assert [x.name for x in less.engines] == ["edge-1", "web-1"]
        before = seen.good
        while seen.good < before + 50 and not seen.lost:
            time.sleep(0.05)
    assert seen.lost == []
    if edge == "envoy":  # it knows two processes at a time: a third would have cut what the first had
        assert less.engines[0].pid == first.engines[0].pid
    assert [x.name for x in registry.local.running()] == [f"{NAME}-edge-1", f"{NAME}-web-1"]


def test_a_node_that_dies_is_taken_out_and_up_brings_it_back() -> None:
    topology = hybrid(NAME, PORT, replicas=3)
    stack = lbgen.up(topology, runtime="local")
    found = group.read(NAME)
    assert found is not None
    dead = next(x for x in registry.local.running() if x.name == f"{NAME}-web-2")
    dead.supervisor.send(signal.SIGKILL)
    for each in processes_in(dead.engines[0].directory):
        each.send(signal.SIGKILL)
    while dead.engines[0].process.alive():
        time.sleep(0.05)
    time.sleep(2.0)  # the edge looks twice a second, and believes the second look
    for _ in range(40):
        assert ask()[0] == 200
    (seen,) = api.ps()
    assert not seen.alive
    edge = seen.engines[0]
    assert (edge.name, [each.state for each in edge.health]) == ("edge-1", ["up", "down", "up"])
    # HAProxy reports the age of a state in whole seconds, so `since` differs between two readings.
    assert [replace(each, since=None) for each in seen.health()["edge-1"]] == [
        replace(each, since=None) for each in edge.health
    ]
    again = lbgen.up(topology, runtime="local")
    assert again.alive
    assert [x.pid for x in again.engines if x.name == "web-1"] == [x.pid for x in stack.engines if x.name == "web-1"]
    assert [x.pid for x in again.engines if x.name == "web-2"] != [x.pid for x in stack.engines if x.name == "web-2"]
    time.sleep(1.0)  # one check that passes brings it back
    for _ in range(12):
        assert ask()[0] == 200
    assert served(again, 3, least=4)


def test_a_port_that_another_process_takes_first_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        seen_free = iter([other.getsockname()[1]])
        choose = ports.free_port
        monkeypatch.setattr(ports, "free_port", lambda **options: next(seen_free, None) or choose(**options))
        stack = lbgen.up(hybrid(NAME, PORT), runtime="local")
    assert next(seen_free, None) is None, "the port was chosen"
    assert [x.name for x in stack.engines] == ["edge-1", "web-1", "web-2"]
    assert ask()[0] == 200


def test_a_tier_that_does_not_start_leaves_nothing(state_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", PORT)), pytest.raises(EngineError, match="LB404"):
        lbgen.up(hybrid(NAME, PORT), runtime="local", seconds=5)
    assert api.ps() == ()
    assert not list(state_dir.glob("stacks/*"))
    assert not list(state_dir.glob("tiers/*"))


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(EngineError, match="network namespace"):
        lbgen.up(hybrid(NAME, PORT, edge="nftables"), runtime="local")
    with pytest.raises(LbgenError, match="is refused by nftables"):
        lbgen.up(hybrid(NAME, PORT, web="nftables"), runtime="local")
    with pytest.raises(UsageError, match="LB225"):
        lbgen.up(hybrid(NAME, PORT), runtime="local", replicas={"edge": 0})
    with pytest.raises(LbgenError, match="nothing would balance its replicas"):
        lbgen.up(hybrid(NAME, PORT), runtime="local", replicas={"edge": 2})
    assert api.ps() == ()
