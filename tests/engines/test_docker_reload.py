"""Containers take over a changed topology under load: no request lost, or all as it was."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.rendered import render_with
from lbgen.runtime.common.certificates import Spec, make
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import client, reload
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.engine_lists import L7_ENGINES
from tests.support.sample import sample
from tests.support.stacks import endpoint_of, pool_of, routed
from tests.support.traffic import Sockets, traffic

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.runtime.docker.desired import EngineUnit

pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("changing")
PORTS = first_port(400)
ALWAYS = 1 << 30
# What README promises to open sockets: so many reloads, or so many seconds.
LIVE_ON = {"nginx": (ALWAYS, ALWAYS), "haproxy": (ALWAYS, 600), "envoy": (ALWAYS, ALWAYS), "traefik": (ALWAYS, ALWAYS)}
CUT_BY = {"haproxy": 640}  # seconds


def data(port: int, *routes: str, tcp: int = 0) -> dict[str, Any]:
    """A path prefix for each of `routes`, answered by a pool of its own; the rest by `app`. `tcp` passes streams."""
    made = routed(NAME, port, *routes)
    if tcp:
        made["listeners"]["tcp"] = {"port": tcp, "mode": "l4"}
        made["pools"]["streams"] = {"endpoints": [{"address": "10.9.2.1:80"}]}
        made["routes"].append({"name": "streams", "listeners": ["tcp"], "forward": "streams"})
        made["routes"][-2]["listeners"] = ["web"]
        for route in made["routes"][:-2]:
            route["listeners"] = ["web"]
    return made


def topology(port: int, *routes: str, tcp: int = 0) -> lbgen.Topology:
    return lbgen.load(data(port, *routes, tcp=tcp))


@pytest.mark.parametrize("name", sample(L7_ENGINES, ("haproxy", "envoy")))
def test_no_request_is_lost_and_what_does_not_serve_is_taken_back(
    name: str, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reloads = 100 if every else 3
    port = free_port("127.0.0.1", PORTS)
    tcp = free_port("127.0.0.1", port + 1)
    lbgen.up(topology(port, "one", tcp=tcp), engine=name, runtime="docker", accept=("all",))
    [before] = [x.handle.id for x in list_containers(client.connect(), NAME) if x.record.engine == name]
    took = []
    with traffic(port) as seen, Sockets({"ws": port, "tcp": tcp}, each=8) as sockets:
        for number in range(reloads):
            routes = (("two",), ("one", "two"), ("one",))[number % 3]
            sockets.reloading()
            begun = time.monotonic()
            lbgen.reload(topology(port, *routes, tcp=tcp), accept=("all",))
            took.append(time.monotonic() - begun)
            sockets.reloaded()
            assert [pool_of(port, f"/{x}") for x in ("one", "two")] == [
                x if x in routes else "app" for x in ("one", "two")
            ]
    [after] = [x.handle.id for x in list_containers(client.connect(), NAME) if x.record.engine == name]
    assert before == after
    median = statistics.median(took)
    lost = f"{len(seen.lost)} of {seen.good} requests lost"
    print(f"{name}: {reloads} reloads, {lost}, {sockets}, live after {median:.1f} s (median)")  # noqa: T201
    assert seen.good > 50 * reloads
    assert not seen.lost, f"{len(seen.lost)} of {seen.good + len(seen.lost)}: {seen.lost[:3]}"
    least, seconds = LIVE_ON[name]
    assert not [cut for cut in sockets.cut if cut[1] < least and cut[2] < seconds], str(sockets)
    if routes != ("one",):
        lbgen.reload(topology(port, "one", tcp=tcp), accept=("all",))
    taken_back(port, tcp, name, monkeypatch)


def taken_back(port: int, tcp: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are not those of the plan: a route of the plan is missing in them."""
    real = reload._plan_change

    def wrong(made: Any, unit: EngineUnit, there: Any) -> Any:
        each, live = real(made, unit, there)
        each.rendered = render_with(unit.choice.engine, live.plan, unit.choice.version, ("all",))
        return each, live

    with monkeypatch.context() as patch:
        patch.setattr(reload, "_plan_change", wrong)
        with pytest.raises(EngineError, match=r"(?s)route two.*files before are in place again and serve"):
            lbgen.reload(topology(port, "two", tcp=tcp), accept=("all",), seconds=5)
    assert pool_of(port, "/one") == "one"
    assert lbgen.up(topology(port, "one", tcp=tcp), engine=name, runtime="docker", accept=("all",)).unchanged
    lbgen.reload(topology(port, "two", tcp=tcp), accept=("all",))
    assert pool_of(port, "/two") == "two"


@pytest.mark.parametrize("name", sample(("nginx", "haproxy"), ("haproxy",)))
def test_it_returns_once_the_change_is_loaded(name: str) -> None:
    """Another number of endpoints shows in no route's answer: workers from before the change give the same ones."""
    port = free_port("127.0.0.1", PORTS)
    lbgen.up(topology(port), engine=name, runtime="docker", accept=("all",))
    made = data(port)
    made["pools"]["app"]["endpoints"].append({"address": "10.9.0.2:80"})
    [engine] = [x.handle for x in list_containers(client.connect(), NAME) if x.record.engine == name]
    engine.kill(signal="SIGSTOP")  # its master, which loads nothing then
    try:
        with ThreadPoolExecutor(1) as pool:
            reload = pool.submit(lbgen.reload, lbgen.load(made), accept=("all",), seconds=30)
            with pytest.raises(TimeoutError):
                reload.result(8)
            engine.kill(signal="SIGCONT")
            reload.result()
    finally:
        engine.kill(signal="SIGCONT")
    assert {endpoint_of(port, "/x") for _ in range(8)} == {"pools.app.endpoints[0]", "pools.app.endpoints[1]"}
    assert not [x.name for x in list_containers(client.connect(), NAME) if x.record.role is Role.CHECK]


@pytest.mark.drill
def test_sockets_are_cut_after_the_drain_time_and_not_before() -> None:
    """Takes 18 minutes."""
    port = free_port("127.0.0.1", PORTS)
    tcp = free_port("127.0.0.1", port + 1)
    names = ("envoy", "haproxy", "nginx", "traefik")
    stack = lbgen.up(topology(port, "one", tcp=tcp), names, runtime="docker", accept=("all",))
    every = {
        name: Sockets({kind: stack.address(x, name).port for kind, x in (("ws", "web"), ("tcp", "tcp"))})
        for name in names
    }
    with ExitStack() as held:
        for each in every.values():
            held.enter_context(each)
            each.reloading()
        lbgen.reload(topology(port, "two", tcp=tcp), accept=("all",))
        end = time.monotonic() + max(CUT_BY.values()) + 20
        while time.monotonic() < end:  # no time without a message is as long as an idle time
            for each in every.values():
                each.reloaded()
            time.sleep(2)
    for name, each in every.items():
        print(f"{name}: {each}")  # noqa: T201
    for name, each in every.items():
        least = LIVE_ON[name][1]
        assert len(each.cut) == (8 if least < ALWAYS else 0), str(each)
        assert all(least <= seconds <= CUT_BY[name] for _, _, seconds in each.cut), str(each)


def test_nftables_in_one_transaction(every: bool) -> None:
    port = free_port("127.0.0.1", PORTS)
    made: dict[str, Any] = {
        "version": 1,
        "name": NAME,
        "listeners": {"db": {"port": port, "mode": "l4"}},
        "pools": {"a": {"endpoints": [{"address": "10.9.0.1:80"}]}, "b": {"endpoints": [{"address": "10.9.0.2:80"}]}},
        "routes": [{"name": "db", "listeners": ["db"], "forward": "a"}],
    }
    lbgen.up(lbgen.load(made), engine="nftables", runtime="docker", accept=("all",))
    with Sockets({"tcp": port}) as sockets:
        for number in range(100 if every else 3):
            forward = "ba"[number % 2]
            made["routes"][0]["forward"] = forward
            lbgen.reload(lbgen.load(made), accept=("all",))
            sockets.reloaded()
            assert pool_of(port, "/") == forward
    print(f"nftables: {sockets}")  # noqa: T201
    assert not sockets.cut


def test_files_that_the_engine_refuses_change_nothing(tmp_path: Path) -> None:
    port = free_port("127.0.0.1", PORTS)
    make(tmp_path, (Spec("a", ("a.example",)), Spec("b", ("b.example",))))
    lbgen.up(topology(port, "one"), engine="haproxy", runtime="docker", accept=("all",))
    made = data(port, "two")
    made["listeners"]["web"]["tls"] = {"certificates": [{"cert": "a.crt", "key": "b.key"}]}
    file = tmp_path / "t.yaml"
    file.write_text(json.dumps(made))
    with pytest.raises(EngineError, match=r"LB427.*(?i:key)"):
        lbgen.reload(lbgen.load(str(file)), accept=("all",))
    assert pool_of(port, "/one") == "one"


def test_other_ports_need_another_container() -> None:
    port = free_port("127.0.0.1", PORTS)
    lbgen.up(topology(port, "one"), engine="nginx", runtime="docker", accept=("all",))
    made = data(port, "two")
    made["listeners"]["more"] = {"port": free_port("127.0.0.1", port + 1)}
    with pytest.raises(EngineError, match=r"LB412.*listener more"):
        lbgen.reload(lbgen.load(made), accept=("all",))
    assert pool_of(port, "/one") == "one"
    again = lbgen.up(lbgen.load(made), engine="nginx", runtime="docker", accept=("all",))
    assert again.replaced
    assert pool_of(port, "/two") == "two"


CHILD = """
import sys, json, lbgen
lbgen.reload(lbgen.load(json.loads(sys.argv[1])), accept=("all",), progress=lambda x: print(x.step, flush=True))
"""


@pytest.mark.parametrize("name", sample(("haproxy", "traefik"), ("haproxy",)))
def test_a_reload_that_is_killed_leaves_what_up_puts_right(name: str) -> None:
    port = free_port("127.0.0.1", PORTS)
    lbgen.up(topology(port, "one"), engine=name, runtime="docker", accept=("all",))
    with traffic(port) as seen:
        argv = [sys.executable, "-c", CHILD, json.dumps(data(port, "two"))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert any(line.strip() == "the change is sound" for line in child.stdout)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:  # as soon as its container says that it changes
                [there] = [x for x in list_containers(client.connect(), NAME) if x.record.engine == name]
                if not there.record.hash:
                    break
            child.send_signal(signal.SIGKILL)
        assert lbgen.up(topology(port, "one"), engine=name, runtime="docker", accept=("all",)).reloaded
        assert pool_of(port, "/one") == "one"
        assert pool_of(port, "/two") == "app"
    assert not seen.lost, seen.lost[:3]
    assert lbgen.up(topology(port, "one"), engine=name, runtime="docker", accept=("all",)).unchanged
