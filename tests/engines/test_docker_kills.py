"""What is killed comes back, and `lbgen up` puts the rest right; each test says what clients saw (-s)."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time

import pytest

import lbgen
from lbgen import api
from lbgen.engines.api import local_engines
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import client
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of, single
from tests.support.engine_lists import L7_ENGINES, need_kernel
from tests.support.sample import sample
from tests.support.traffic import Traffic, traffic

pytestmark = [
    *IN_CONTAINERS,
    AS_ROOT,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("killed")
PORTS = first_port(500)
BACK_SECONDS = 15.0
UNLIKE = ("haproxy", "nftables", "keepalived")  # other containers start again as HAProxy's does


CHECKED = {"active": {"path": "/", "interval": "200ms", "timeout": "200ms", "fall": 1, "rise": 1}}


def kill(role: Role) -> None:
    [each] = [each for each in list_containers(client.connect(), NAME) if each.record.role is role]
    os.kill(int(each.handle.attrs["State"]["Pid"]), signal.SIGKILL)


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        return "pool" in json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def back(port: int, what: str, seen: Traffic) -> None:
    """Wait until requests are answered again, and say what was lost."""
    begun = time.monotonic()
    while not all(answers(port) for _ in range(4)):
        assert time.monotonic() - begun < BACK_SECONDS, f"nothing answers {BACK_SECONDS:g} s after {what} was killed"
        time.sleep(0.05)
    took = time.monotonic() - begun
    print(f"{what}: answers again after {took:.1f} s; {len(seen.lost)} of {seen.good + len(seen.lost)} lost")  # noqa: T201


@pytest.mark.parametrize("name", sample(local_engines(), UNLIKE))
def test_an_engine_that_is_killed_and_its_endpoints(name: str) -> None:
    need_kernel(name)
    port = free_port("127.0.0.1", PORTS)
    made = single(NAME, port, "l7" if name in L7_ENGINES else "l4")
    lbgen.up(made, engine=name, runtime="docker", accept=("all",))
    with traffic(port, pool="app", pause=0.02) as seen:
        time.sleep(0.5)
        kill(Role.ENGINE)
        time.sleep(0.1)
        back(port, name, seen)
    if name == "haproxy":  # any would do
        with traffic(port, pool="app", pause=0.02) as seen:
            time.sleep(0.5)
            kill(Role.ENDPOINTS)
            time.sleep(0.1)
            back(port, "endpoints", seen)
    assert lbgen.up(made, engine=name, runtime="docker", accept=("all",)).unchanged
    assert answers(port)


def test_an_engine_that_takes_its_agent_along() -> None:
    port = free_port("127.0.0.1", PORTS)
    made = single(NAME, port, health=CHECKED)
    lbgen.up(made, engine="nginx", runtime="docker", accept=("all",))
    kill(Role.ENGINE)
    time.sleep(1)
    lbgen.up(made, engine="nginx", runtime="docker", accept=("all",))
    assert answers(port)
    [agent] = [each for each in list_containers(client.connect(), NAME) if each.record.role is Role.AGENT]
    assert agent.running
    [listed] = [each for each in api.ps() if each.name == NAME]
    assert [each.state for each in listed.engines[0].health] == ["up", "up"]
    kill(Role.ENDPOINTS)  # which the agent notices only when it shares the engine's network
    end = time.monotonic() + BACK_SECONDS
    while b" down after " not in agent.handle.logs():
        assert time.monotonic() < end
        time.sleep(0.1)
