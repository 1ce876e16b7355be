"""Running stacks take over a changed topology: requests go on, what is new answers, what is gone does not."""

from __future__ import annotations

import copy
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError, UsageError
from lbgen.engines.api import engine
from lbgen.engines.rendered import MANIFEST, render_with
from lbgen.runtime.common.certificates import Spec, make
from lbgen.runtime.common.reload import reload_all
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.local.reload import prepare_change
from tests.support.command import run_lbgen
from tests.support.engine_lists import need_binary
from tests.support.sample import sample
from tests.support.stacks import pool_of, routed
from tests.support.traffic import Sockets, traffic
from tests.support.websocket import connected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_600
L7 = (
    ("nginx", "1.31"),
    pytest.param("nginx", "1.22", marks=pytest.mark.drill),
    ("haproxy", "2.8"),
    pytest.param("haproxy", "2.6", marks=pytest.mark.drill),
    ("envoy", "1.40"),
    ("traefik", "3.7"),
)
ENGINES = ("nginx", "haproxy", "envoy", "traefik")

Topology = dict[str, Any]


def topology(name: str, version: str, *routes: str) -> Topology:
    """The routes on that version of an engine."""
    return {**routed("changing", PORT, *routes), "engines": {name: {"version": version}}}


def need(name: str, version: str | None = None) -> None:
    need_binary(name, version)


@pytest.mark.parametrize(("name", "version"), L7)
def test_no_request_is_lost(name, version):
    need(name, version)
    with lbgen.up(lbgen.load(topology(name, version, "one")), engine=name, accept=("all",), runtime="local") as stack:
        pid = stack.engines[0].pid
        with traffic(PORT) as seen:
            for routes in (("two",), ("one", "two"), ("three",), ("one",), ("two", "four")):
                done = lbgen.reload(lbgen.load(topology(name, version, *routes)))
                cuts = (name, version) == ("nginx", "1.22")
                assert any("closes idle client connections" in each.message for each in done.warnings) == cuts
                for each in ("one", "two", "three", "four"):
                    assert pool_of(PORT, f"/{each}") == (each if each in routes else "app")
                time.sleep(0.3)
        assert seen.good > 200
        # 1.22 closes idle connections at once, so that a request may cross the FIN on its way.
        most = seen.good // 100 if (name, version) == ("nginx", "1.22") else 0
        assert len(seen.lost) <= most, f"{len(seen.lost)} of {seen.good + len(seen.lost)}: {seen.lost[:3]}"
        (found,) = api.ps("changing")
        assert found.engines[0].pid == pid
        assert found.engines[0].running


@pytest.mark.parametrize("name", ENGINES)
def test_services_are_asked_meanwhile(name):
    """HAProxy asks by a socket of its own, which the new process takes over."""
    need(name)

    def guarded(*routes: str) -> Topology:
        made = topology(name, engine(name).versions[0], *routes)
        made["pools"]["sso"] = {"endpoints": [{"address": "10.9.0.9:80"}]}
        made["listeners"]["web"]["auth"] = {"forward": {"pool": "sso", "response_headers": ["x-user"]}}
        return made

    with lbgen.up(lbgen.load(guarded("one")), engine=name, accept=("all",), runtime="local"):
        with traffic(PORT) as kept, traffic(PORT, fresh=True) as new:
            for routes in (("two",), ("one", "two"), ("one",)):
                lbgen.reload(lbgen.load(guarded(*routes)))
                time.sleep(0.3)
        assert (kept.lost, new.lost) == ([], [])
        assert min(kept.good, new.good) > 50


def shape(name: str) -> Topology:
    return topology(name, engine(name).versions[0], "one")


@pytest.mark.parametrize("name", sample(ENGINES, ("nginx", "envoy", "traefik")))
def test_listeners_and_endpoints_come_and_go(name):
    need(name)
    made = shape(name)
    with lbgen.up(lbgen.load(made), engine=name, accept=("all",), runtime="local") as stack:
        digest = stack.state.digest
        changed = copy.deepcopy(made)
        changed["pools"]["app"]["endpoints"].append({"address": "10.9.0.2:80"})
        lbgen.reload(lbgen.load(changed))
        assert {pool_of(PORT, "/x") for _ in range(4)} == {"app"}
        (found,) = api.ps("changing")
        assert found.state.digest != digest
        assert len(found.endpoints) == 3
        changed["listeners"]["other"] = {"port": PORT + 1}
        if name == "traefik":
            with pytest.raises(EngineError, match=r"reads traefik\.yaml only when it starts.*listener other"):
                lbgen.reload(lbgen.load(changed))
            assert pool_of(PORT, "/one") == "one"
            return
        after = lbgen.reload(lbgen.load(changed))
        assert after.url("other") == f"http://127.0.0.1:{PORT + 1}"
        assert pool_of(PORT + 1, "/one") == "one"
        assert lbgen.up(lbgen.load(changed), engine=name, accept=("all",), runtime="local").unchanged
        lbgen.reload(lbgen.load(made))
        until = time.monotonic() + 5
        while _accepts(PORT + 1):
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize(("name", "version"), L7[:4])
def test_it_returns_once_the_change_is_loaded(name, version):
    """Another number of endpoints shows in no route's answer: workers from before answer just so."""
    need(name, version)
    made = topology(name, version)
    with lbgen.up(lbgen.load(made), engine=name, accept=("all",), runtime="local") as stack:
        master = stack.engines[0].pid
        made["pools"]["app"]["endpoints"].append({"address": "10.9.0.2:80"})
        os.kill(master, signal.SIGSTOP)  # it hears of nothing
        try:
            with ThreadPoolExecutor(1) as pool:
                reload = pool.submit(lbgen.reload, lbgen.load(made), seconds=60)
                with pytest.raises(TimeoutError):
                    reload.result(4)
                os.kill(master, signal.SIGCONT)
                reload.result()
        finally:
            os.kill(master, signal.SIGCONT)
        assert {endpoint_of("/x") for _ in range(8)} == {"pools.app.endpoints[0]", "pools.app.endpoints[1]"}


def endpoint_of(path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    try:
        connection.request("GET", path)
        return str(json.loads(connection.getresponse().read())["name"])
    finally:
        connection.close()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_taken_port_stops_it_before_anything_changes():
    need("nginx")
    made = shape("nginx")
    with lbgen.up(lbgen.load(made), engine="nginx", accept=("all",), runtime="local"), socket.socket() as other:
        other.bind(("127.0.0.1", PORT + 1))
        other.listen()
        made["listeners"]["other"] = {"port": PORT + 1}
        with pytest.raises(EngineError, match=f"port {PORT + 1}"):
            lbgen.reload(lbgen.load(made))
        assert pool_of(PORT, "/one") == "one"


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_files_that_the_engine_refuses_leave_the_old_ones(name, tmp_path):
    need(name)
    make(tmp_path, (Spec("one", ("a.example",)), Spec("other", ("b.example",))))
    with lbgen.up(lbgen.load(shape(name)), engine=name, accept=("all",), runtime="local") as stack:
        before = _files(Path(stack.engines[0].directory))
        with pytest.raises(EngineError, match=r"LB427.*(?i:key)"):
            lbgen.reload(secured(shape(name), tmp_path, "one.crt", "other.key"))
        assert _files(Path(stack.engines[0].directory)) == before
        assert pool_of(PORT, "/one") == "one"


def secured(made: Topology, folder: Path, certificate: str, key: str) -> lbgen.Topology:
    made["listeners"]["web"]["tls"] = {"certificates": [{"cert": certificate, "key": key}]}
    file = folder / "changing.yaml"
    file.write_text(json.dumps(made))
    return lbgen.load(str(file))


def _files(folder: Path) -> dict[str, bytes]:
    names = (folder / MANIFEST).read_text().splitlines()
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize("name", sample(ENGINES, ("haproxy", "traefik")))
def test_what_does_not_serve_is_taken_back(name, tmp_path):
    """The files are not those of the plan: a route of the plan is missing in them."""
    need(name)
    target = engine(name)
    made: Topology = {
        "version": 1,
        "name": "changing",
        "listeners": {"web": {"port": PORT}},
        "routes": [{"name": "rest", "respond": {"status": 200}}],
    }
    old = lbgen.plan(lbgen.load(made))
    made["routes"].append({"name": "new", "match": [{"path": {"prefix": "/new"}}], "respond": {"status": 201}})
    new = lbgen.plan(lbgen.load(made))
    with run_engine(name, old, accept=("all",)) as handle:
        before = _files(handle.directory)
        change = prepare_change(handle, target, new, ("all",))
        change.rendered = render_with(target, handle.plan, handle.version, ("all",))
        with pytest.raises(EngineError, match=r"(?s)route new.*status 200.*files before are in place again and serve"):
            reload_all((change,), seconds=5, progress=lambda step: None)
        assert _files(handle.directory) == before
        assert handle.plan == change.before[0]
        change = prepare_change(handle, target, new, ("all",))
        assert reload_all((change,), seconds=10, progress=lambda step: None) == ()
        assert _files(handle.directory) != before


def test_the_command(tmp_path):
    need("haproxy")
    version = engine("haproxy").versions[0]
    file = tmp_path / "changing.yaml"
    file.write_text(json.dumps(topology("haproxy", version, "one")))
    with lbgen.up(lbgen.load(str(file)), engine="haproxy", accept=("all",), runtime="local"):
        file.write_text(json.dumps(topology("haproxy", version, "two")))
        done = _command(file)
        assert done.returncode == 0, done.stderr
        assert f"http://127.0.0.1:{PORT}" in done.stdout
        assert pool_of(PORT, "/two") == "two"
        file.write_text(json.dumps({**topology("haproxy", version, "two"), "engines": {"haproxy": {"version": "2.6"}}}))
        done = _command(file)
        assert done.returncode == 3
        assert "LB412" in done.stderr
        assert "lbgen up" in done.stderr


def _command(*words: object) -> CompletedProcess[str]:
    return run_lbgen("reload", *map(str, words))


def certificate(name: str) -> bytes | None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", PORT), 5) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        return secured.getpeercert(binary_form=True)


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_renewed_certificates(name, tmp_path):
    need(name)
    make(tmp_path, (Spec("a", ("a.example",)),))
    made = secured(shape(name), tmp_path, "a.crt", "a.key")
    with lbgen.up(made, engine=name, accept=("all",), runtime="local"):
        before = certificate("a.example")
        assert before == certificate("a.example")
        make(tmp_path, (Spec("a", ("a.example",)),))
        lbgen.reload(made)
        until = time.monotonic() + 5
        while certificate("a.example") == before:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_what_does_not_run_cannot_be_reloaded():
    with pytest.raises(UsageError, match="no stack 'changing' runs"):
        lbgen.reload(lbgen.load(shape("nginx")))


def test_of_several_engines_all_change_or_none():
    for name in ("haproxy", "nginx", "traefik"):
        need(name)
    made = shape("nginx")
    with lbgen.up(lbgen.load(made), ["haproxy", "nginx", "traefik"], accept=("all",), runtime="local") as stack:
        made["listeners"]["other"] = {"port": PORT + 1}
        with pytest.raises(EngineError, match="Traefik reads"):
            lbgen.reload(lbgen.load(made))
        ports = [stack.address("web", each.name).port for each in stack.engines]
        assert [pool_of(port, "/one") for port in ports] == ["one"] * 3
        assert all(len(each.addresses) == 1 for each in api.ps("changing")[0].engines)
        lbgen.reload(lbgen.load(topology("nginx", engine("nginx").versions[0], "two")))
        assert [pool_of(port, "/two") for port in ports] == ["two"] * 3


def test_another_version_needs_a_new_start():
    need("nginx", "1.22")
    with lbgen.up(lbgen.load(topology("nginx", "1.22", "one")), engine="nginx", accept=("all",), runtime="local"):
        with pytest.raises(EngineError, match=r"nginx 1\.22 runs, .* asks for 1\.31"):
            lbgen.reload(lbgen.load(topology("nginx", "1.31", "one")))
        assert pool_of(PORT, "/one") == "one"


def test_up_again_takes_over_the_change_or_replaces():
    need("nginx")
    with lbgen.up(lbgen.load(shape("nginx")), engine="nginx", accept=("all",), runtime="local") as stack:
        changed = lbgen.load(topology("nginx", engine("nginx").versions[0], "two"))
        again = lbgen.up(changed, engine="nginx", accept=("all",), runtime="local")
        assert again.reloaded
        assert not again.replaced
        assert again.engines[0].pid == stack.engines[0].pid
        assert lbgen.up(changed, engine="nginx", accept=("all",), runtime="local").unchanged
        need("haproxy")
        made = topology("haproxy", engine("haproxy").versions[0], "two")
        other = lbgen.up(lbgen.load(made), engine="haproxy", accept=("all",), runtime="local")
        assert other.replaced
        assert pool_of(PORT, "/two") == "two"


def test_nftables_in_one_transaction():
    need("nftables")
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("nftables needs root and ip")
    made: Topology = {
        "version": 1,
        "name": "changing",
        "listeners": {"db": {"port": PORT, "mode": "l4"}},
        "pools": {"a": {"endpoints": [{"address": "10.9.0.1:80"}]}, "b": {"endpoints": [{"address": "10.9.0.2:80"}]}},
        "routes": [{"name": "db", "listeners": ["db"], "forward": "a"}],
    }
    with lbgen.up(lbgen.load(made), engine="nftables", accept=("all",), runtime="local") as stack:
        address = stack.address("db")
        kept = http.client.HTTPConnection(address.host, address.port, timeout=5)
        for forward in ("b", "a", "b"):
            kept.request("GET", "/")
            assert json.loads(kept.getresponse().read())["pool"] == "a"
            made["routes"][0]["forward"] = forward
            lbgen.reload(lbgen.load(made))
            connection = http.client.HTTPConnection(address.host, address.port, timeout=5)
            connection.request("GET", "/")
            assert json.loads(connection.getresponse().read())["pool"] == forward
            connection.close()
        kept.close()


def test_the_agent_of_nginx_goes_on_with_the_new_order():
    need("nginx")
    made = shape("nginx")
    active = {"active": {"path": "/", "interval": "500ms", "timeout": "500ms", "fall": 2, "rise": 1}}
    made["pools"]["app"]["health"] = active
    with lbgen.up(lbgen.load(made), engine="nginx", accept=("all",), runtime="local") as stack:
        before = stack.engines[0].agent
        made["pools"]["one"]["health"] = active
        lbgen.reload(lbgen.load(made))
        until = time.monotonic() + 10
        while {x.pool for x in api.ps("changing")[0].engines[0].health if x.state == "up"} != {"app", "one"}:
            assert time.monotonic() < until
            time.sleep(0.1)
        (found,) = api.ps("changing")[0].engines
        assert found.agent
        assert found.agent != before
        assert pool_of(PORT, "/one") == "one"
        lbgen.reload(lbgen.load(shape("nginx")))
        (found,) = api.ps("changing")[0].engines
        assert (found.agent, {each.state for each in found.health}) == (0, {"unknown"})
        assert pool_of(PORT, "/one") == "one"


@pytest.mark.parametrize("name", sample(ENGINES, ("nginx", "haproxy")))
def test_an_open_websocket_goes_on(name):
    need(name)
    with lbgen.up(lbgen.load(shape(name)), engine=name, accept=("all",), runtime="local"), websocket("/chat") as talk:
        talk.send("before")
        assert "before" in talk.recv(5)
        for routes in (("two",), ("one", "three")):
            lbgen.reload(lbgen.load(topology(name, engine(name).versions[0], *routes)))
            talk.send("after")
            assert "after" in talk.recv(5)


def test_sockets_stay_open_through_any_number_of_reloads_of_envoy(every):
    """A hundred in a drill; in containers that of test_docker_reload, with every engine."""
    need("envoy")

    def made(*routes: str) -> lbgen.Topology:
        found = topology("envoy", engine("envoy").versions[0], *routes)
        found["listeners"]["tcp"] = {"port": PORT + 1, "mode": "l4"}
        found["pools"]["streams"] = {"endpoints": [{"address": "10.9.2.1:80"}]}
        for route in found["routes"]:
            route["listeners"] = ["web"]
        found["routes"].append({"name": "streams", "listeners": ["tcp"], "forward": "streams"})
        return lbgen.load(found)

    reloads = 100 if every else 3
    with (
        lbgen.up(made("one"), engine="envoy", accept=("all",), runtime="local"),
        traffic(PORT) as seen,
        Sockets({"ws": PORT, "tcp": PORT + 1}, each=8) as sockets,
    ):
        for number in range(reloads):
            routes = (("two",), ("one", "two"), ("one",))[number % 3]
            sockets.reloading()
            lbgen.reload(made(*routes), accept=("all",))
            sockets.reloaded()
            assert [pool_of(PORT, f"/{x}") for x in ("one", "two")] == [
                x if x in routes else "app" for x in ("one", "two")
            ]
    print(f"{reloads} reloads, {len(seen.lost)} of {seen.good} requests lost, {sockets}")  # noqa: T201
    assert seen.lost == []
    assert sockets.cut == [], str(sockets)
    assert seen.good > 20 * reloads


def test_what_a_running_envoy_refuses_is_taken_back_with_its_reason():
    need("envoy")
    made = shape("envoy")
    with lbgen.up(lbgen.load(made), engine="envoy", accept=("all",), runtime="local") as stack:
        changed = copy.deepcopy(topology("envoy", engine("envoy").versions[0], "two"))
        changed["listeners"]["dns"] = {"port": PORT + 1, "mode": "l4", "protocol": "udp"}
        changed["pools"]["names"] = {"endpoints": [{"address": "10.9.5.1:53"}]}
        for route in changed["routes"]:
            route["listeners"] = ["web"]
        changed["routes"].append({"name": "dns", "listeners": ["dns"], "forward": "names"})
        with traffic(PORT) as seen, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("0.0.0.0", PORT + 1))  # noqa: S104
            with pytest.raises(
                EngineError, match=r"(?s)cannot bind.*Address already in use.*before are in place again"
            ):
                lbgen.reload(lbgen.load(changed))
            assert [pool_of(PORT, f"/{each}") for each in ("one", "two")] == ["one", "app"]
            other.close()
            lbgen.reload(lbgen.load(changed))
            assert [pool_of(PORT, f"/{each}") for each in ("one", "two")] == ["app", "two"]
        assert seen.lost == []
        assert api.ps("changing")[0].engines[0].pid == stack.engines[0].pid


def test_what_a_running_envoy_cannot_change_takes_a_new_process():
    need("envoy")
    made = shape("envoy")
    with lbgen.up(lbgen.load(made), engine="envoy", accept=("all",), runtime="local") as stack, traffic(PORT) as seen:
        made["listeners"]["web"]["max_connections"] = 1000
        [part] = [x for x in lbgen.preview(lbgen.load(made), by_reload=True).parts if x.name == "envoy"]
        assert part.action == "replace without a gap"
        lbgen.reload(lbgen.load(made))
        after = api.ps("changing")[0].engines[0].pid
        assert after != stack.engines[0].pid
        changed = topology("envoy", engine("envoy").versions[0], "two")
        changed["listeners"] = made["listeners"]
        lbgen.reload(lbgen.load(changed))
        assert (pool_of(PORT, "/two"), api.ps("changing")[0].engines[0].pid) == ("two", after)
    assert seen.lost == []


@contextmanager
def websocket(path: str) -> Iterator[Any]:
    with connected(f"ws://127.0.0.1:{PORT}{path}") as talk:
        yield talk
