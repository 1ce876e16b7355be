"""Exported units on a machine with systemd: they start, reload under load, refuse a file, come back and stop."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.api import engines
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from lbgen.spec.load import load_bytes
from tests.support.engine_lists import L7_ENGINES, need_binary
from tests.support.machine import Machine, machine, why_unavailable
from tests.support.stacks import pool_of, serves
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.xdist_group("machine"),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable()),
]
NAME = "moved"
UNIT = f"lbgen-{NAME}"
MAIN = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml", "traefik": "dynamic/http.yaml"}
TOPOLOGY = """\
version: 1
name: moved
listeners: {{ web: {{ port: {web} }} }}
pools:
  app: {{ endpoints: [{{ address: "127.0.0.1:{app}" }}] }}
  api: {{ endpoints: [{{ address: "127.0.0.1:{api}" }}] }}
routes:
  - {{ name: api, match: [{{ path: {{ prefix: {prefix} }} }}], forward: api }}
  - {{ name: rest, forward: app }}
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


def applied(host: Machine, topology: str, engine: str) -> None:
    """Export and do what the README says for a machine without Ansible, up to the reload."""
    found = lbgen.export(load_bytes(topology.encode(), "moved.yaml", Path.cwd()), "systemd", engine=engine)
    found.write(host.shared)
    [commands] = re.findall(r"Without Ansible.*?```sh\n(.*?)```", found.files["README.md"], re.DOTALL)
    host.run(commands)


def shown(host: Machine, name: str) -> str:
    """A property of the unit."""
    return host.run(f"systemctl show --property {name} --value {UNIT}").stdout.strip()


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
    app = free_port(start=21_100)
    api = free_port(start=21_200)
    text = partial(TOPOLOGY.format, web=web, app=app, api=api)
    with ExitStack() as stack:
        ends = (StandIn("app", "app", "127.0.0.1", app), StandIn("api", "api", "127.0.0.1", api))
        stack.enter_context(stand_in_servers(ends))
        applied(host, text(prefix="/one"), engine)
        wait_until(lambda: serves(web, "/steady"), host)
        clients = stack.enter_context(ExitStack())
        kept, fresh = (clients.enter_context(traffic(web, fresh=each)) for each in (False, True))
        applied(host, text(prefix="/two"), engine)
        wait_until(lambda: pool_of(web, "/two") == "api", host)
        assert pool_of(web, "/one") == "app"
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
        applied(host, text(prefix="/three"), engine)
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
