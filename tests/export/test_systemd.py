"""Exported units on a machine with systemd: they start, reload under load, refuse a file, come back and stop."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.api import engines
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.ports import free_port
from lbgen.spec.load import load_bytes
from tests.support.engine_lists import L7_ENGINES, need_binary
from tests.support.exports import MAIN, Moving, commands
from tests.support.machine import Machine, machine, why_unavailable
from tests.support.stacks import pool_of, serves
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.xdist_group("machine"),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable()),
]
NAME = "moved"
UNIT = f"lbgen-{NAME}"


FLOATING = """\
version: 1
name: moved
engines: { keepalived: { vrrp: "interface eth0" } }
listeners: { web: { port: 8080, address: 10.77.2.100 } }
pools: {}
routes: [{ name: up, respond: { status: 200, body: up } }]
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    programs = {}
    for name in L7_ENGINES:
        try:
            programs[name] = find(engines()[name])[0].path
        except EngineError:
            continue
    with machine(tmp_path_factory.mktemp("machine"), programs) as made:
        yield made


def applied(host: Machine, moving: Moving, engine: str, prefix: str) -> None:
    """Export and do what the README says for a machine without Ansible, up to the reload."""
    host.run(moving.commands("systemd", engine, prefix, host.shared, "Without Ansible"))


def shown(host: Machine, name: str, unit: str = UNIT) -> str:
    """A property of a unit."""
    return host.run(f"systemctl show --property {name} --value {unit}").stdout.strip()


def wait_until(what: Callable[[], bool], host: Machine) -> None:
    end = time.monotonic() + 15
    while not what():
        assert time.monotonic() < end, host.journal()
        time.sleep(0.05)


@pytest.mark.parametrize(
    "engine", [pytest.param(x, marks=() if x == "haproxy" else pytest.mark.drill) for x in L7_ENGINES]
)
def test_units_serve_through_reloads_refusals_and_a_crash(engine: str, host: Machine) -> None:
    need_binary(engine)
    web = free_port(start=81 if engine == "nginx" else 21_000)  # a low port is a capability in the unit
    moving = Moving(NAME, web, "127.0.0.1", free_port(start=21_100), free_port(start=21_200))
    with moving.endpoints(), ExitStack() as stack:
        applied(host, moving, engine, "/one")
        wait_until(lambda: serves(web, "/steady"), host)
        clients = stack.enter_context(ExitStack())
        kept, fresh = (clients.enter_context(traffic(web, fresh=each)) for each in (False, True))
        applied(host, moving, engine, "/two")
        wait_until(lambda: (pool_of(web, "/two"), pool_of(web, "/one")) == ("api", "app"), host)
        loaded = f"/run/lbgen/{NAME}/{MAIN[engine]}"
        before = host.run(f"cat {loaded}").stdout
        host.run(f"echo 'nonsense {{' >>/etc/lbgen/{NAME}/{MAIN[engine]}")
        refused = host.run(f"systemctl reload {UNIT}", check=False)
        if engine != "traefik":  # has no checker, and keeps what it has when it cannot read a file
            assert refused.returncode != 0
            assert host.run(f"cat {loaded}").stdout == before
        time.sleep(1)
        assert pool_of(web, "/two") == "api"
        assert shown(host, "ActiveState") == "active"
        applied(host, moving, engine, "/three")
        wait_until(lambda: pool_of(web, "/three") == "api", host)
        time.sleep(1)
        clients.close()
        first = shown(host, "MainPID")
        host.run(f"kill -KILL {first}")
        wait_until(lambda: shown(host, "MainPID") not in ("0", first) and serves(web, "/steady"), host)
        host.run(f"systemctl stop {UNIT}; rm -r /etc/lbgen/{NAME}")
        assert shown(host, "Result") == "success"
    assert (kept.lost, fresh.lost) == ([], [])
    assert min(kept.good, fresh.good) > 50


def in_network(process: int, *argv: str) -> str:
    words = ["nsenter", f"--net=/proc/{process}/ns/net", *argv]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=10).stdout


@pytest.mark.drill
@pytest.mark.skipif(shutil.which("keepalived") is None, reason="keepalived is not installed")
def test_a_second_machine_takes_the_floating_address(tmp_path: Path) -> None:
    program = need_binary("haproxy").path
    found = lbgen.export(load_bytes(FLOATING.encode(), "moved.yaml", tmp_path), "systemd", engine="haproxy")
    with ExitStack() as stack:
        holders = []
        for _ in range(2):
            process = subprocess.Popen(("unshare", "--net", "sleep", "120"))
            stack.callback(process.wait)
            stack.callback(process.kill)
            holders.append(process.pid)
        time.sleep(0.5)
        one, two = holders
        in_network(one, *f"ip link add eth0 type veth peer name eth0 netns {two}".split())
        for number, each in enumerate(holders, 1):
            for change in (f"address add 10.77.2.{number}/24 dev eth0", "link set eth0 up", "link set lo up"):
                in_network(each, "ip", *change.split())
        hosts = [stack.enter_context(machine(tmp_path / str(each), {"haproxy": program}, each)) for each in holders]
        for each in hosts:
            found.write(each.shared)
            each.run(commands(found.files["README.md"], "Without Ansible"))

        def at() -> list[bool]:
            return [" 10.77.2.100/32 " in in_network(each, "ip", "-4", "-o", "address") for each in holders]

        def answer(number: int) -> str:
            ask = "import urllib.request as x; print(x.urlopen('http://10.77.2.100:8080/').read().decode())"
            return in_network(holders[number], sys.executable, "-c", ask).strip()

        wait_until(lambda: sum(at()) == 1, hosts[0])
        first = at().index(True)
        assert answer(1 - first) == "up"
        hosts[first].run(f"systemctl stop {UNIT}")
        wait_until(lambda: at()[1 - first] and not at()[first], hosts[first])
        assert answer(first) == "up"
        hosts[first].run(f"systemctl start {UNIT}")
        wait_until(lambda: shown(hosts[first], "ActiveState", f"{UNIT}-floating") == "active", hosts[first])
