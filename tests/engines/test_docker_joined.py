"""Endpoints that are containers of others: joined by name, followed when they move, never played."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from docker.types import IPAMConfig, IPAMPool

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime import registry
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import external_networks, helper_image, images
from tests.support.daemon import IN_CONTAINERS, first_port, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

pytestmark = [*IN_CONTAINERS]
NAME = name_of("test-joined")
PORTS = first_port(1_050)
CHECK = {"path": "/", "expect": [404], "interval": "500ms", "timeout": "500ms", "fall": 2, "rise": 1}
CLIENT = httpx.Client(timeout=10, headers={"Connection": "close"})  # made once, as that takes longer than a request
L7 = ("nginx", "haproxy", "envoy", "traefik")
MOVED = 10.0  # seconds within which an engine has followed
SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Length", str(len(sys.argv[1])))
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
"""


class Room:
    """A network that is not lbgen's, with containers in it."""

    def __init__(self, daemon: DockerClient) -> None:
        self.daemon = daemon
        self.helper = images.ensure_helper(daemon, lambda text: None)
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=f"10.240.{os.getpid() % 250}.0/24")])
        self.network = daemon.networks.create(
            f"a-{NAME}", ipam=pool
        )  # docker would have ports lead there: it comes first
        self.made = []
        self.addresses: list[str] = []

    def start(self, name: str, address: str | None = None) -> None:
        """A container with that alias that tells its alias and number."""
        said = f"{name}-{len(self.made)}"
        made = self.daemon.containers.create(
            self.helper, [helper_image.PYTHON, "-c", SERVER, said], name=f"{NAME}-{said}", stop_signal="SIGKILL"
        )
        self.made.append(made)
        self.network.connect(made, aliases=[name], ipv4_address=address)
        made.start()
        made.reload()
        self.addresses.append(made.attrs["NetworkSettings"]["Networks"][self.network.name]["IPAddress"])

    def remove(self) -> None:
        for made in self.made:
            made.remove(force=True)
        self.network.reload()
        assert self.network.attrs["Containers"] == {}
        self.network.remove()


@pytest.fixture
def room(daemon: DockerClient) -> Iterator[Room]:
    made = Room(daemon)
    yield made
    for stack in registry.list_stacks(NAME):
        api.Stack(stack).down()
    made.remove()


def topology(port: int, network: str) -> lbgen.Topology:
    prefix = {name: [{"path": {"prefix": f"/{name}"}}] for name in ("late", "played")}
    return lbgen.load(
        {
            "version": 1,
            "name": NAME,
            "profile": "minimal",
            "containers": {"networks": [network]},
            "listeners": {"web": {"port": port}},
            "pools": {
                "app": {"endpoints": [{"address": "app:8080"}], "health": {"active": CHECK}},
                "late": {"endpoints": [{"address": "late:8080"}], "stand_ins": False},
                "played": {"endpoints": [{"address": "nobody:80"}]},
            },
            "routes": [
                {"name": "late", "match": prefix["late"], "forward": "late"},
                {"name": "played", "match": prefix["played"], "forward": "played"},
                {"name": "app", "forward": "app"},
            ],
        }
    )


def within(seconds: float, asked: Callable[[], dict[str, str]], wanted: str) -> None:
    """It is so within that time, and from then on."""
    end, right = time.monotonic() + seconds, 0
    while right < 3:
        found = asked()
        right = right + 1 if set(found.values()) == {wanted} else 0
        assert right or time.monotonic() < end, found
        time.sleep(0.1)


def test_containers_are_joined_by_name_and_followed(room: Room) -> None:
    room.start("app")
    port = free_port("127.0.0.1", PORTS)
    stack = lbgen.up(topology(port, room.network.name), L7, runtime="docker", accept=("all",))

    def said(path: str) -> dict[str, str]:
        return {name: CLIENT.get(f"{stack.url('web', name)}{path}").text for name in L7}

    assert {each.pool for each in stack.endpoints} == {"played"}
    assert {each.message.split("route ")[1].split()[0] for each in stack.warnings} == {"late"}
    assert set(said("/").values()) == {"app-0"}  # and its 404 is no failure
    room.made[0].stop(timeout=0)
    room.start("held", room.addresses[0])  # who answers there now is somebody else
    room.start("app")
    within(MOVED, lambda: said("/"), "app-2")
    room.start("late")
    within(MOVED, lambda: said("/late"), "late-3")
    assert all('"played"' in text for text in said("/played").values())
    assert lbgen.up(topology(port, room.network.name), L7, runtime="docker", accept=("all",)).unchanged
    found = {(x.pool, x.endpoint == x.address) for told in stack.health().values() for x in told}
    assert found == {("app", True), ("late", True), ("played", False)}

    def states() -> dict[str, str]:
        return {name: x.state for name, told in stack.health().items() for x in told if x.pool == "app"}

    within(MOVED, states, "up")
    room.made[2].stop(timeout=0)
    within(MOVED, states, "down")


def test_who_is_played_though_a_container_has_that_name_is_told(room: Room) -> None:
    room.start("app")
    name = f"{NAME}-app-0"
    pools = {"app": {"endpoints": [{"address": f"{name}:8080"}]}}
    routes = [{"name": "app", "forward": "app"}]
    plan = lbgen.plan(
        lbgen.load({"version": 1, "name": "x", "listeners": {"web": {"port": 80}}, "pools": pools, "routes": routes})
    )
    [found] = external_networks.missed_containers(room.daemon, plan)
    assert (found.code, found.severity, room.network.name in str(found.hint)) == ("LB423", "advice", True)
    assert external_networks.resolve_endpoints(room.daemon, plan, backends=True) == plan


def test_a_network_that_is_not_there_is_said_before_anything_is_made(room: Room) -> None:
    with pytest.raises(EngineError, match="there is no docker network nowhere-at-all") as caught:
        lbgen.up(topology(free_port("127.0.0.1", PORTS), "nowhere-at-all"), ["haproxy"], runtime="docker")
    [found] = caught.value.diagnostics
    assert (found.code, found.field) == ("LB423", "containers.networks[0]")
    assert not registry.list_stacks(NAME)
