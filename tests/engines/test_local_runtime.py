"""Real engines as local stacks: they come up, answer, and go without a trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

import lbgen
from lbgen import api
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.processes import ProcessId, group_members
from lbgen.runtime.local.spawn import processes_in
from tests.support.engine_lists import need_binary
from tests.support.sample import sample

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_500
L7 = ("nginx", "haproxy", "envoy", "traefik")

SHOP = {
    "version": 1,
    "name": "local-shop",
    "listeners": {"web": {"port": PORT}, "db": {"port": PORT + 1, "mode": "l4"}},
    "pools": {
        "app": {"endpoints": [{"address": "10.9.0.1:80", "weight": 2}, {"address": "app.invalid:80"}]},
        "pg": {"endpoints": [{"address": "10.9.0.2:5432"}]},
    },
    "routes": [
        {"name": "api", "hosts": ["*.shop.example"], "match": [{"path": {"regex": "/v[0-9]+"}}], "forward": "app"},
        {"name": "old", "match": [{"path": {"exact": "/old"}}], "redirect": {"path": "/new"}},
        {"name": "ok", "match": [{"path": {"exact": "/health"}}], "respond": {"status": 200, "body": "ok\n"}},
        {"name": "rest", "forward": "app"},
        {"name": "db", "listeners": ["db"], "forward": "pg"},
    ],
}
DATABASE = {**SHOP, "name": "local-db", "listeners": {"db": {"port": PORT + 1, "mode": "l4"}}}
DATABASE = {**DATABASE, "pools": {"pg": SHOP["pools"]["pg"]}, "routes": [SHOP["routes"][4]]}


def need(name: str) -> None:
    """Skip with the reason when that engine cannot run here."""
    need_binary(name)
    if name == "nftables" and (os.geteuid() != 0 or shutil.which("ip") is None):
        pytest.skip("nftables needs root and ip")


def get(url: str, host: str = "a.example") -> dict[str, object]:
    request = urllib.request.Request(url, headers={"Host": host})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.parametrize("name", sample(L7, ("nginx", "envoy")))
def test_one_engine_on_the_topologys_own_ports(name, state_dir):
    need(name)
    with lbgen.up(lbgen.load(SHOP), engine=name, accept=("all",), runtime="local") as stack:
        assert stack.url("web") == f"http://127.0.0.1:{PORT}"
        assert get(stack.url("web") + "/x")["pool"] == "app"
        assert get(stack.url("db").replace("tcp", "http"))["pool"] == "pg"
        (found,) = stack.engines
        pid = found.pid
        assert found.running
        if os.geteuid() == 0:
            for member in group_members(pid):
                assert "Uid:\t65534" in Path(f"/proc/{member.pid}/status").read_text()
    assert group_members(pid) == ()
    assert not list(state_dir.glob("stacks/*"))
    assert not Path(found.directory).exists()


def test_all_engines_at_once(state_dir):
    for name in L7:
        need(name)
    steps: list[api.Progress] = []
    with lbgen.up(lbgen.load(SHOP), accept=("all",), progress=steps.append, runtime="local") as stack:
        assert [x.name for x in stack.engines] == sorted(L7)
        assert [name for name, _ in stack.skipped] == ["keepalived", "nftables"]
        for name in L7:
            assert get(stack.url("web", name) + "/x")["pool"] == "app"
        assert {x.engine for x in steps if x.step is api.Step.READY} == set(L7)


@pytest.mark.parametrize("name", sample([*L7, "nftables"], ("haproxy", "nftables")))
def test_l4_on_every_engine(name):
    need(name)
    with lbgen.up(lbgen.load(DATABASE), engine=name, accept=("all",), runtime="local") as stack:
        assert get(stack.url("db").replace("tcp", "http"))["pool"] == "pg"


def test_nftables_beside_another_engine():
    need("nftables")
    need("haproxy")
    with lbgen.up(lbgen.load(DATABASE), ["haproxy", "nftables"], runtime="local") as stack:
        assert stack.url("db", "haproxy") == f"tcp://127.0.0.1:{PORT + 1}"
        assert stack.url("db", "nftables").startswith("tcp://10.213.")
        for name in ("haproxy", "nftables"):
            assert get(stack.url("db", name).replace("tcp", "http"))["pool"] == "pg"


@pytest.mark.parametrize(("name", "version"), [("nginx", "1.22"), ("haproxy", "2.6")])
def test_the_version_that_the_topology_asks_for(name, version):
    pools = {**SHOP["pools"], "app": {"endpoints": [{"address": "10.9.0.1:80"}]}}
    wanted = {**SHOP, "pools": pools, "engines": {name: {"version": version}}}
    need_binary(name, version)
    with lbgen.up(lbgen.load(wanted), engine=name, accept=("all",), runtime="local") as stack:
        assert stack.engines[0].version.startswith(version + ".")
        assert get(stack.url("web") + "/x")["pool"] == "app"


@pytest.mark.parametrize("name", sample(L7, ("nginx",)))
def test_down_leaves_nothing_of_a_stack_that_has_lost_its_supervisor(name, state_dir):
    need(name)
    stack = lbgen.up(lbgen.load(SHOP), accept=("all",), engine=name, runtime="local")
    (found,) = stack.engines
    os.kill(stack.state.pid, signal.SIGKILL)
    while stack.alive:
        time.sleep(0.02)
    assert get(stack.url("web") + "/x")["pool"] == "app"
    assert api.ps()[0].engines[0].running
    assert not api.ps()[0].alive
    folder = state_dir / "stacks" / stack.name
    api.down()
    assert group_members(found.pid) == ()
    assert processes_in(found.directory) == []
    assert processes_in(str(folder)) == []
    assert not folder.exists()
    assert not Path(found.directory).exists()


@pytest.mark.parametrize("how", ["down", "kill"])
def test_nothing_of_the_namespace_is_left(how):
    need("nftables")
    stack = lbgen.up(lbgen.load(DATABASE), engine="nftables", runtime="local")
    cable = f"lbg{stack.engines[0].pid}"
    assert cable in interfaces()
    if how == "kill":
        os.kill(stack.state.pid, signal.SIGKILL)
        while stack.alive:
            time.sleep(0.02)
        assert cable in interfaces()
        assert get(stack.url("db").replace("tcp", "http"))["pool"] == "pg"
    stack.down()
    end = time.monotonic() + 5
    while cable in interfaces() and time.monotonic() < end:
        time.sleep(0.02)
    assert cable not in interfaces()


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


@pytest.mark.parametrize("name", sample(L7, ("haproxy",)))
def test_endpoints_that_do_not_answer_are_warnings(name):
    need(name)
    pools = {"app": {"endpoints": [{"address": "127.0.0.1:24599"}]}}
    lonely = {**SHOP, "pools": pools, "listeners": {"web": {"port": PORT}}, "routes": SHOP["routes"][1:4]}
    with lbgen.up(lbgen.load(lonely), engine=name, accept=("all",), backends=False, runtime="local") as stack:
        assert stack.endpoints == ()
        (warning,) = stack.warnings
        assert warning.code == "LB405"
        assert "route rest" in warning.message
    assert ProcessId.of(stack.engines[0].pid) is None


def guarded(folder: Path) -> Path:
    """A topology of TLS, PROXY header, HTTP/2, checks, sticky cookies, limits, access and CORS, with its files."""
    for name in ("shop.crt", "shop.key", "ca.crt", "client.crt", "client.key"):
        shutil.copy(temporary_certificates() / name, folder / name)
    check = {"active": {"path": "/health", "port": 9999, "expect": [204], "interval": "500ms", "timeout": "500ms"}}
    tls = {
        "ca": "ca.crt",
        "server_name": "backend.internal",
        "certificate": {"cert": "client.crt", "key": "client.key"},
    }
    topology = {
        "version": 1,
        "name": "guarded",
        "listeners": {
            "web": {"port": PORT, "access": {"allow": ["127.0.0.0/8"]}},
            "secure": {"port": PORT + 1, "tls": {"certificates": [{"cert": "shop.crt", "key": "shop.key"}]}},
            "behind": {"port": PORT + 2, "proxy_protocol": "accept"},
        },
        "pools": {
            "app": {"endpoints": [{"address": f"10.9.0.{n}:80"} for n in (1, 2)], "sticky": {"cookie": "LB"}},
            "tls": {"endpoints": [{"address": "10.9.0.3:443"}], "tls": tls, "health": check},
            "h2": {"endpoints": [{"address": "10.9.0.4:80"}], "protocol": "http2", "health": check},
        },
        "routes": [
            {
                "name": "denied",
                "match": [{"path": {"prefix": "/denied"}}],
                "forward": "app",
                "access": {"deny": ["127.0.0.0/8"]},
            },
            {
                "name": "limited",
                "match": [{"path": {"prefix": "/limited"}}],
                "forward": "app",
                "rate_limit": {"rate": "1/m", "key": "client_ip"},
            },
            {
                "name": "cors",
                "match": [{"path": {"prefix": "/cors"}}],
                "forward": "app",
                "cors": {"origins": ["https://a.example"]},
            },
            {"name": "tls", "match": [{"path": {"prefix": "/tls"}}], "forward": "tls"},
            {"name": "h2", "match": [{"path": {"prefix": "/h2"}}], "forward": "h2"},
            {"name": "rest", "forward": "app"},
        ],
    }
    path = folder / "topology.yaml"
    path.write_text(json.dumps(topology))
    return path


@pytest.mark.parametrize("name", sample(L7, ("nginx", "traefik")))
def test_a_stack_with_tls_checks_and_limits_answers(name, tmp_path):
    need(name)
    topology = lbgen.load(guarded(tmp_path))
    try:
        lbgen.render(topology, engine=name, accept=("all",))
    except lbgen.LbgenError as error:
        pytest.skip(str(error))
    with lbgen.up(topology, engine=name, accept=("all",), runtime="local") as stack:
        assert stack.warnings == ()
        assert stack.url("secure") == f"https://127.0.0.1:{PORT + 1}"
        for path, pool in (("/tls", "tls"), ("/h2", "h2"), ("/x", "app")):
            assert get(stack.url("web") + path)["pool"] == pool
        time.sleep(2)  # long enough for checks to fail, if they did
        for path, pool in (("/tls", "tls"), ("/h2", "h2")):
            assert get(stack.url("web") + path)["pool"] == pool
        (found,) = api.ps()[0].engines
        assert {each.state for each in found.health if each.pool != "app"} == {"up"}


@pytest.mark.parametrize("name", sample(L7, ("haproxy",)))
def test_an_engine_that_is_killed_comes_back(name):
    need(name)
    with lbgen.up(lbgen.load(SHOP), engine=name, accept=("all",), runtime="local") as stack:
        first = stack.engines[0].pid
        os.kill(first, signal.SIGKILL)
        end = time.monotonic() + 30
        while not (found := api.ps()[0].engines[0]).restarts and time.monotonic() < end:
            time.sleep(0.1)
        assert (found.restarts, found.died) == (1, "ended by SIGKILL")
        while time.monotonic() < end:
            try:
                assert get(stack.url("web") + "/x")["pool"] == "app"
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"{name} does not answer again")
        assert found.running
        assert found.pid != first
