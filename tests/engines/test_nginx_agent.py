"""nginx and `lbgen agent`: dead endpoints get nothing, those that return get their share, no request is lost."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest

import lbgen
from lbgen.agent import state_file
from lbgen.plan.overlay import with_endpoints, with_ports
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn
from tests.support.engine_lists import need_binary

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]
VERSIONS = ("1.31", pytest.param("1.22", marks=pytest.mark.drill))
INTERVAL, FALL, RISE = 0.2, 2, 2
PAUSE = 0.01  # of each client: eight without one take all CPUs, and checks find no endpoint alive


def checks(fall: int = FALL) -> dict[str, object]:
    return {"active": {"path": "/healthz", "interval": "200ms", "timeout": "200ms", "fall": fall, "rise": RISE}}


def topology(**pool):
    health = checks()
    return {
        "version": 1,
        "name": "checked",
        "listeners": {"web": {"port": 8080}, "db": {"port": 8081, "mode": "l4"}},
        "pools": {
            "app": {"endpoints": [{"address": f"10.9.0.{n}:80"} for n in (1, 2, 3)], "health": health, **pool},
            "db": {"endpoints": [{"address": f"10.9.0.{n}:81"} for n in (1, 2, 3)], "health": health},
        },
        "routes": [{"name": "all", "forward": "app"}, {"name": "db", "listeners": ["db"], "forward": "db"}],
    }


@contextmanager
def served(version: str, **pool):
    need_binary("nginx", version)
    plan = lbgen.plan(lbgen.load(topology(**pool)))
    first = free_port(start=24_200)
    ports = [free_port(start=first + 10 * n) for n in range(1, 6)]
    plan = with_ports(plan, {"web": ports[0], "db": ports[1]})
    pairs = [(e.field, ("127.0.0.1", p)) for pool in plan.pools for e, p in zip(pool.endpoints, ports[2:], strict=True)]
    places = dict(pairs)
    stand_ins = [StandIn(f"app-{n}", "app", "127.0.0.1", port) for n, port in enumerate(ports[2:])]
    with (
        stand_in_servers(stand_ins) as group,
        run_engine("nginx", with_endpoints(plan, places), version=version, accept=("all",)) as handle,
    ):
        yield group, handle


def ask(handle, listener: str = "web") -> tuple[int, str]:
    connection = http.client.HTTPConnection(*handle.address(listener), timeout=5)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("x-stand-in-name", "")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def many(handle, count: int, listener: str = "web") -> Counter[tuple[int, str]]:
    return Counter(ask(handle, listener) for _ in range(count))


def known(handle, seconds: float = 10) -> dict[str, str]:
    """The states in the order of the endpoints, once there are any."""
    end = time.monotonic() + seconds
    while not (found := state_file.read(handle.directory)) and time.monotonic() < end:
        time.sleep(0.05)
    return [each.state for (pool, _), each in found.items() if pool == "app"]


def becomes(handle, wanted: list[str], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (now := known(handle)) != wanted and time.monotonic() < end:
        time.sleep(0.02)
    return now == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_dead_endpoints_get_nothing_and_come_back(version):
    with served(version) as (group, handle):
        assert becomes(handle, ["up"] * 3, 10)
        assert many(handle, 20).keys() == {(200, f"app-{n}") for n in range(3)}
        group.listen("app-0", "refuse")
        time.sleep(INTERVAL * (FALL + 1) + 1)
        assert many(handle, 20).keys() == {(200, "app-1"), (200, "app-2")}
        assert many(handle, 10, "db").keys() == {(200, "app-1"), (200, "app-2")}
        assert "refused" in next(iter(state_file.read(handle.directory).values())).reason
        group.listen("app-1", "drop")
        group.listen("app-2", "refuse")
        assert becomes(handle, ["down"] * 3, 5)
        time.sleep(1)
        assert many(handle, 5) == {(502, ""): 5}
        assert many(handle, 2, "db") == {(0, ""): 2}
        group.listen("app-0", "yes")
        time.sleep(INTERVAL * (RISE + 1) + 1)
        assert many(handle, 10) == {(200, "app-0"): 10}
        handle.process.send_signal(9)
        handle.process.wait()
        handle.restart()
        group.listen("app-1", "yes")
        assert becomes(handle, ["up", "up", "down"], 8)
        time.sleep(1)
        assert many(handle, 20).keys() == {(200, "app-0"), (200, "app-1")}


def test_a_slow_start_and_a_drained_endpoint():
    weights = [{"address": "10.9.0.1:80"}, {"address": "10.9.0.2:80"}, {"address": "10.9.0.3:80", "weight": 0}]
    with served("1.31", slow_start="8s", endpoints=weights) as (group, handle):
        assert becomes(handle, ["up", "up", "draining"], 10)
        assert 8 <= many(handle, 20)[200, "app-0"] <= 12
        group.listen("app-0", "refuse")
        assert becomes(handle, ["down", "up", "draining"], 5)
        group.listen("app-0", "yes")
        assert becomes(handle, ["starting", "up", "draining"], 5)
        time.sleep(0.6)
        early = many(handle, 40)[200, "app-0"]
        assert 1 <= early <= 12
        time.sleep(4)
        assert early < many(handle, 40)[200, "app-0"] <= 18
        assert becomes(handle, ["up", "up", "draining"], 8)
        time.sleep(1)
        assert 8 <= many(handle, 20)[200, "app-0"] <= 12


def test_no_request_of_a_kept_connection_is_lost_while_endpoints_come_and_go():
    """Only the checks of an endpoint fail, so that nothing but the reloads themselves could cost a request. A busy
    machine is late for checks of all endpoints at once: only those that fail for more than a second count."""
    with served("1.31", health=checks(fall=6)) as (group, handle):
        assert becomes(handle, ["up"] * 3, 10)
        stop = threading.Event()
        results: Counter[object] = Counter()

        def client() -> None:
            connection = http.client.HTTPConnection(*handle.address("web"), timeout=5)
            while not stop.is_set():
                try:
                    connection.request("GET", "/")
                    answer = connection.getresponse()
                    answer.read()
                    results[answer.status] += 1
                except (OSError, http.client.HTTPException) as error:
                    results[repr(error)] += 1
                    connection.close()
                time.sleep(PAUSE)
            connection.close()

        clients = [threading.Thread(target=client) for _ in range(8)]
        for each in clients:
            each.start()
        flip(group, 12, pause=2)
        stop.set()
        for each in clients:
            each.join()
        log = (handle.directory / "agent.log").read_text()
        assert log.count(" down ") >= 3, log
        assert log.count(" up ") >= 3, log
        assert results.keys() == {200}, results


@pytest.mark.parametrize("version", VERSIONS)
def test_open_tcp_connections_live_on(version):
    with served(version) as (group, handle):
        assert becomes(handle, ["up"] * 3, 10)
        connection = http.client.HTTPConnection(*handle.address("db"), timeout=5)
        connection.auto_open = 0  # one connection, not another that looks like it
        connection.connect()
        mine = over(connection)
        other = next(n for n in range(3) if f"app-{n}" != mine)
        group.behave(f"app-{other}", Behaviour("fixed", status=500), path="/healthz")
        states = ["up"] * 3
        states[other] = "down"
        assert becomes(handle, states, 5)
        time.sleep(1)
        assert over(connection) == mine
        assert many(handle, 10, "db").keys() == {(200, f"app-{n}") for n in range(3) if n != other}
        assert over(connection) == mine
        connection.close()


def test_files_that_are_rendered_again_are_followed():
    with served("1.31") as (group, handle):
        assert becomes(handle, ["up"] * 3, 10)
        group.listen("app-0", "refuse")
        assert becomes(handle, ["down", "up", "up"], 5)
        lists = handle.directory / "upstreams/http/app.conf"
        assert " down;" in lists.read_text()
        lbgen.render(handle.plan, "nginx", accept=("all",)).write(handle.directory)
        assert " down;" not in lists.read_text()
        time.sleep(3)
        assert " down;" in lists.read_text()
        assert many(handle, 20).keys() == {(200, "app-1"), (200, "app-2")}


def over(connection: http.client.HTTPConnection) -> str:
    """Which endpoint answers on this connection."""
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    return answer.headers["x-stand-in-name"]


def flip(group, seconds: float, pause: float = 1) -> None:
    """Make the checks of app-0 fail and succeed in turns."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for behaviour in (Behaviour("fixed", status=500), Behaviour()):
            group.behave("app-0", behaviour, path="/healthz")
            time.sleep(pause)
