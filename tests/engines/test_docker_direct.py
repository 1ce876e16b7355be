"""Direct forwarding in containers: rules inside the endpoints' containers, replies that bypass the balancer."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker.types import IPAMConfig, IPAMPool

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import client, helper_image, images, network
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient
    from docker.models.containers import Container

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
KERNEL = Path(__file__).parents[2] / "examples/hybrid-edge/kernel.yaml"
NAME = name_of("direct")
PORTS = first_port(1_700)
RESTARTED = 5.0  # seconds within which a restarted endpoint has its rules again
OPEN = 40
COUNTERS = """
table inet seen {{
  chain in {{
    type filter hook prerouting priority -400; policy accept;
    tcp dport {port} counter comment "requests"
    tcp sport {{ {port}, {behind} }} ip daddr != {own} counter comment "replies"
  }}
}}
"""
SERVER = """
import socketserver, sys
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(sys.argv[1].encode() + b" " + line)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 128
    allow_reuse_address = daemon_threads = True
Server(("", 8080), Answer).serve_forever()
"""


def topology(port: int, weights: tuple[int, ...], ends: tuple[str, ...], **more: object) -> lbgen.Topology:
    pool = [{"address": end, "weight": weight} for end, weight in zip(ends, weights, strict=True)]
    return lbgen.load(
        {
            "version": 1,
            "name": NAME,
            "engines": {"nftables": {"forwarding": "direct"}},
            "listeners": {"db": {"port": port, "mode": "l4", "address": "127.0.0.1"}},
            "pools": {"db": {"endpoints": pool}},
            "routes": [{"name": "db", "listeners": ["db"], "forward": "db"}],
            **more,
        }
    )


class Room:
    """A network that is not lbgen's, with a container for each endpoint, at fixed addresses."""

    def __init__(self, daemon: DockerClient, count: int) -> None:
        helper = images.ensure_helper(daemon, lambda text: None)
        net = f"10.241.{os.getpid() % 250}"
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=f"{net}.0/24")])
        self.network = daemon.networks.create(f"room-{NAME}", ipam=pool)
        self.made: list[Container] = []
        self.hosts = tuple(f"{net}.{n + 11}" for n in range(count))
        for number, host in enumerate(self.hosts):
            argv = [helper_image.PYTHON, "-c", SERVER, f"end{number}"]
            made = daemon.containers.create(helper, argv, name=f"{NAME}-end{number}", stop_signal="SIGKILL")
            self.made.append(made)
            self.network.connect(made, ipv4_address=host)
            made.start()

    def remove(self) -> None:
        for made in self.made:
            made.remove(force=True)
        self.network.remove()


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room(client.connect(), 3)
    yield made
    made.remove()


def inside(there: Container, *words: str, text: str = "") -> str:
    there.reload()
    argv = ("nsenter", "-n", "-t", str(there.attrs["State"]["Pid"]), *words)
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout


def holder(daemon: DockerClient, stack: str) -> Container:
    [found] = [each.handle for each in list_containers(daemon, stack) if each.record.role is Role.PORTS]
    return found


def count_packets(daemon: DockerClient, port: int, behind: int, stack: str = NAME) -> None:
    """Count the packets of clients and the answers to them that the balancer receives; those to its checks are none."""
    there = holder(daemon, stack)
    there.reload()
    own = there.attrs["NetworkSettings"]["Networks"][network.name(stack)]["IPAddress"]
    inside(there, "nft", "-f", "-", text=COUNTERS.format(port=port, behind=behind, own=own))


def packets(daemon: DockerClient, stack: str = NAME) -> dict[str, int]:
    listed = json.loads(inside(holder(daemon, stack), "nft", "-j", "list", "table", "inet", "seen"))["nftables"]
    rules = [each["rule"] for each in listed if "rule" in each]
    return {rule["comment"]: next(x["counter"]["packets"] for x in rule["expr"] if "counter" in x) for rule in rules}


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=3)


def ask(connection: socket.socket) -> str:
    """Who answers on the connection; "" for nobody."""
    try:
        connection.sendall(b"hello\n")
        return connection.recv(100).decode().partition(" ")[0]
    except OSError:
        return ""


def answers(port: int, count: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        with connect(port) as connection:
            found[ask(connection)] += 1
    return found


def up(topology: lbgen.Topology, *, backends: bool = True) -> api.Stack:
    return lbgen.up(topology, engine="nftables", runtime="docker", accept=("all",), backends=backends)


def test_replies_of_containers_bypass_the_balancer(daemon: DockerClient, room: Room) -> None:
    port = free_port("127.0.0.1", PORTS)
    ends = (f"{room.hosts[0]}:8080", f"{NAME}-end1:8080", f"{NAME}-end2:8080")  # by address, and by name
    joined = {"containers": {"networks": [str(room.network.name)]}}
    running = up(topology(port, (2, 1, 1), ends, **joined))
    assert up(topology(port, (2, 1, 1), ends, **joined)).unchanged
    count_packets(daemon, port, 8080)
    assert answers(port, 20) == {"end0": 10, "end1": 5, "end2": 5}

    with ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(OPEN)]
        before = [ask(each) for each in held]
        assert Counter(before) == {"end0": 20, "end1": 10, "end2": 10}
        lbgen.reload(topology(port, (1, 4, 0), ends, **joined))
        assert [ask(each) for each in held] == before
        lbgen.reload(topology(port, (0, 1), ends[:2], **joined))
        others = [(each, who) for each, who in zip(held, before, strict=True) if who != "end2"]
        assert [ask(each) for each, _ in others] == [who for _, who in others]
        assert answers(port, 10) == {"end1": 10}
    lbgen.reload(topology(port, (1, 1, 1), ends, **joined))
    assert answers(port, 30) == {"end0": 10, "end1": 10, "end2": 10}

    room.made[1].restart(timeout=0)
    begun = time.monotonic()
    while "" in (got := answers(port, 3)):
        assert time.monotonic() - begun < RESTARTED, got
    seen = packets(daemon)
    assert seen["replies"] == 0, seen
    assert seen["requests"] > 500, seen

    running.down()
    assert ["direct" in inside(each, "nft", "list", "tables") for each in room.made] == [False] * 3


@pytest.mark.parametrize("form", sample([{}, {"device": "lan0"}], [{}]))
def test_stand_ins_have_them_and_are_checked(daemon: DockerClient, form: dict[str, str]) -> None:
    port = free_port("127.0.0.1", PORTS + 50)
    checks = {"active": {"interval": "200ms", "timeout": "200ms", "fall": 2, "rise": 2}}
    engines = {"nftables": {"forwarding": "direct", **form}}
    shop = topology(port, (1, 1), ("10.0.0.1:80", "10.0.0.2:80"), engines=engines)
    found = shop.with_pool(
        "db", {**shop.model.pools["db"].model_dump(exclude_unset=True, mode="json"), "health": checks}
    )
    stack = up(found)
    time.sleep(1)
    assert [str(x.state) for x in stack.engines[0].health] == ["up", "up"]
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    plain = lbgen.load({**shop.model.model_dump(exclude_unset=True, mode="json"), "engines": {}})
    lbgen.reload(plain)
    assert Role.ENDPOINT_RULES not in {each.record.role for each in list_containers(daemon, NAME)}
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def ask_edge(connection: http.client.HTTPConnection) -> str:
    """Where a node redirects to; "" where nobody answers."""
    try:
        connection.request("GET", "/old", headers={"Host": f"shop.example:{connection.port}"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return ""
    return str(answer.headers["Location"]) if answer.status == 302 else ""


def answers_of_edge(port: int, count: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=3)) as connection:
            found[ask_edge(connection)] += 1
    return found


@pytest.mark.drill
def test_three_nodes_behind_an_edge_in_the_kernel_answer_by_themselves(daemon: DockerClient) -> None:
    """examples/hybrid-edge/kernel.yaml, by `up` alone: other numbers of nodes, and a node that stops."""
    port = free_port("127.0.0.1", PORTS + 150)
    model = lbgen.load(KERNEL).model.model_dump(exclude_unset=True, mode="json")
    model["name"] = NAME
    model["routes"][2]["hosts"].append("127.0.0.1")  # of the clients that count losses
    model["listeners"]["public"]["port"], model["listeners"]["http"]["port"] = port, port + 1
    shop = lbgen.load(model)
    stack = lbgen.up(shop, runtime="docker")
    assert lbgen.up(shop, runtime="docker").unchanged
    edge = f"{NAME}-edge-1"
    count_packets(daemon, port, 63_001, edge)
    target = f"http://shop.example:{port}/new"
    with ExitStack() as closing:
        kept = [
            closing.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=3)))
            for _ in range(OPEN)
        ]
        for each in kept:
            each.connect()
            each.auto_open = 0
        assert [ask_edge(each) for each in kept] == [target] * OPEN
        with traffic(port, pool="shop") as seen:
            lbgen.up(shop, runtime="docker", replicas={"web": 4})
            assert [ask_edge(each) for each in kept] == [target] * OPEN
            lbgen.up(shop, runtime="docker", replicas={"web": 3})
        assert seen.lost == []
        assert seen.good > 50
        assert [ask_edge(each) for each in kept] == [target] * OPEN
        [node] = [x.handle for x in list_containers(daemon, f"{NAME}-web-1") if x.record.role is Role.ENGINE]
        node.kill()
        end = time.monotonic() + 30
        while answers_of_edge(port, 12) != {target: 12}:
            assert time.monotonic() < end
        assert Counter(ask_edge(each) for each in kept)[target] in (26, 27)  # of two nodes of three
    lbgen.up(shop, runtime="docker")
    assert answers_of_edge(port, 12) == {target: 12}
    for each in stack.engines:  # its published port, which is not the edge's
        if each.name.startswith("web"):
            [place] = each.addresses
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", place.port, timeout=3)) as own:
                own.request("GET", "/old", headers={"Host": "shop.example"})
                assert own.getresponse().status == 302
    seen_packets = packets(daemon, edge)
    assert seen_packets["replies"] == 0, seen_packets
    assert seen_packets["requests"] > 500, seen_packets
    stack.down()


def test_an_endpoint_that_is_no_container_is_refused() -> None:
    port = free_port("127.0.0.1", PORTS + 100)
    with pytest.raises(EngineError, match=r"LB403.*10\.0\.0\.1 is no running container .*lbgen render"):
        up(topology(port, (1,), ("10.0.0.1:80",)), backends=False)
