"""nftables in containers with `lbgen agent` beside it: how fast an endpoint is out and back, and what a kill costs."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen import api
from lbgen.agent import state_file
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import container_files, stack
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

    from lbgen.engines.health import Condition
    from lbgen.runtime.docker.converge import StackContainer

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("kernel")
PORTS = first_port(1_400)
ROUND = 12  # connections after which all endpoints that serve have answered
SECONDS = 30  # how soon is measured by test_drills


def topology(port: int, **pool: object) -> lbgen.Topology:
    checks = {"active": {"interval": "200ms", "timeout": "200ms", "fall": 2, "rise": 3}}
    ends = [{"address": f"10.0.0.{n}:80"} for n in (1, 2, 3)]
    return lbgen.load(
        {
            "version": 1,
            "name": NAME,
            "listeners": {"db": {"port": port, "mode": "l4"}},
            "pools": {"db": {"endpoints": ends, "health": checks, **pool}},
            "routes": [{"name": "db", "listeners": ["db"], "forward": "db"}],
        }
    )


def up(topology: lbgen.Topology) -> api.Stack:
    return lbgen.up(topology, engine="nftables", runtime="docker", accept=("all",))


def part(daemon: DockerClient, role: Role) -> StackContainer:
    [found] = [each for each in list_containers(daemon, NAME) if each.record.role is role]
    return found


def pid(daemon: DockerClient, role: Role) -> int:
    return int(part(daemon, role).handle.attrs["State"]["Pid"])


def health(daemon: DockerClient) -> list[Condition]:
    found = container_files.read(part(daemon, Role.ENGINE).handle, state_file.FILE)
    return list(state_file.parse(found or b"").values())


def answer(port: int) -> str:
    """Who answers a new connection; "" for nobody."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        return over(connection)
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def over(connection: http.client.HTTPConnection) -> str:
    answer = connection.getresponse()
    answer.read()
    return str(answer.headers["x-stand-in-name"])


def settled(port: int, names: set[str]) -> set[str]:
    """Everyone who answered until `names` alone did, all of them; "" for nobody."""
    end, found = time.monotonic() + SECONDS, set[str]()
    while (now := {answer(port) for _ in range(ROUND)}) != names:
        assert time.monotonic() < end, now
        found |= now
    return found | now


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def refusing(daemon: DockerClient, name: str) -> Iterator[None]:
    """The stand-in of that name refuses new connections meanwhile."""
    there = part(daemon, Role.ENDPOINTS)
    [port] = [each["port"] for each in json.loads(there.record.detail) if each["name"] == name]
    inside = ("nsenter", "-n", "-t", str(pid(daemon, Role.ENDPOINTS)), "nft")
    rule = f"tcp dport {port} ct state new reject with tcp reset"
    chain = f"chain in {{ type filter hook input priority 0; policy accept; {rule}; }}"
    subprocess.run((*inside, f"table ip dead {{ {chain}; }}"), check=True)
    try:
        yield
    finally:
        subprocess.run((*inside, "delete table ip dead"), check=True)


@pytest.mark.drill
def test_an_endpoint_is_out_and_back_and_others_notice_nothing(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    up(topology(port))
    names = {answer(port) for _ in range(ROUND)}
    assert len(names) == 3
    assert all(names)
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    kept.auto_open = 0
    kept.connect()
    kept.request("GET", "/")
    mine = over(kept)
    dead = min(names - {mine})
    with refusing(daemon, dead):
        settled(port, names - {dead})
        until(lambda: [str(x.state) for x in health(daemon)].count("down") == 1)
        agent, engine = pid(daemon, Role.AGENT), pid(daemon, Role.ENGINE)
        os.kill(agent, signal.SIGKILL)
        assert Counter(answer(port) for _ in range(20)).keys() == names - {dead}
        # The rules are loaded again from the agent's last file, and docker starts the agent again.
        os.kill(engine, signal.SIGKILL)
        until(lambda: pid(daemon, Role.ENGINE) not in (0, engine))
        assert dead not in settled(port, names - {dead})
        until(lambda: pid(daemon, Role.AGENT) not in (0, agent))
        kept.request("GET", "/")
        assert over(kept) == mine
    assert "" not in settled(port, names)
    kept.request("GET", "/")
    assert over(kept) == mine
    kept.close()


def test_a_reload_begins_ends_and_keeps_what_the_agent_has_found(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 50)
    up(topology(port, health={}))
    assert not [x for x in list_containers(daemon, NAME) if x.record.role is Role.AGENT]
    lbgen.reload(topology(port))
    names = {answer(port) for _ in range(ROUND)}
    dead = min(names)
    assert up(topology(port)).unchanged
    with refusing(daemon, dead):
        settled(port, names - {dead})
        lbgen.reload(topology(port, balance="random"))
        assert {answer(port) for _ in range(3 * ROUND)} == names - {dead}
    lbgen.reload(topology(port, balance="least_connections"))
    settled(port, names)
    said = part(daemon, Role.AGENT).handle.logs()
    assert b"counts connections of 1 pools" in said
    assert b"cannot be counted" not in said
    host = part(daemon, Role.AGENT).handle.attrs["HostConfig"]
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["NET_ADMIN", "DAC_OVERRIDE"])
    lbgen.reload(topology(port, health={}))
    assert not [x for x in list_containers(daemon, NAME) if x.record.role is Role.AGENT]
    assert {answer(port) for _ in range(ROUND)} == names
    assert container_files.read(part(daemon, Role.ENGINE).handle, "lbgen.nft")


@pytest.mark.parametrize("forwarding", sample(("nat", "direct"), ("nat",)))
def test_another_container_takes_the_rules_over_and_gives_them_back(
    forwarding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another memory limit needs another container, whose tables are those of the one before."""
    port = free_port("127.0.0.1", PORTS + 100)
    made = topology(port, health={}).model.model_dump(exclude_unset=True, mode="json")
    made["listeners"]["db"]["address"] = "127.0.0.1"
    made["engines"] = {"nftables": {"forwarding": forwarding}}
    up(lbgen.load(made))
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    kept.auto_open = 0
    kept.connect()

    def serving() -> int:
        """How many endpoints answer, also on the open connection."""
        kept.request("GET", "/")
        names = {over(kept), *(answer(port) for _ in range(6))}
        assert "" not in names
        return len(names)

    assert serving() == 3
    made["pools"]["db"]["endpoints"][2]["weight"] = 0  # of which open connections may be
    wider = lbgen.load({**made, "containers": {"memory": "300MiB"}})

    def fail(*asked: object) -> None:
        raise EngineError(Diagnostic("LB405", "no route answers"))

    with monkeypatch.context() as patch:
        patch.setattr(stack, "_wait_for_routes", fail)
        with pytest.raises(EngineError, match="no route answers"):
            up(wider)
    assert serving() == 3
    kept.close()
    kept.connect()
    kept.request("GET", "/")
    assert over(kept)
    up(wider)
    assert {answer(port) for _ in range(12)} == {answer(port) for _ in range(2)}
    kept.request("GET", "/")
    assert over(kept)
    kept.close()
