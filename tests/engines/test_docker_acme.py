"""Containers get and renew certificates by ACME from Pebble while clients lose nothing. Needs a docker daemon."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import lbgen
from lbgen import api
from lbgen.runtime.common import issued_certificates
from lbgen.runtime.docker import client
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.engines import test_acme
from tests.support import pebble
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("acme")
PORTS = first_port(1_850)
BRIDGE = "172.17.0.1"  # docker's own, which containers of any network reach


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize("engine", sample(test_acme.ENGINES, ("nginx",)))
def test_a_certificate_is_obtained_and_renewed(engine, state, tmp_path):
    web, secure = PORTS, PORTS + 1
    with pebble.authority(tmp_path / "pebble", web, PORTS + 10, validity=15, host=BRIDGE) as authority:
        data = test_acme.topology(authority, engine, web, secure) | {"name": NAME}
        stack = lbgen.up(lbgen.load(data), engine=engine, runtime="docker", accept=("all",), seconds=120)
        with test_acme.clients(secure) as kept, test_acme.clients(secure, fresh=True) as new:
            first = test_acme.wait_issued(secure)
            test_acme.wait_issued(secure, other_than=first.serial_number)
            time.sleep(1)
        print(f"{engine}: 2 certificates, {len(kept.lost + new.lost)} of {kept.good + new.good} requests lost")  # noqa: T201
        assert (kept.lost, new.lost) == ([], [])
        assert kept.good > 20
        assert new.good > 10
        stack.down()
        assert (issued_certificates.store_folder(NAME) / "acme-secure.crt").is_file()
        assert state in issued_certificates.store_folder(NAME).parents


@pytest.mark.parametrize("engine", sample(test_acme.ENGINES, ("haproxy",)))
def test_failures_take_no_certificate_away_and_no_request(engine, state, tmp_path):
    web, secure = PORTS, PORTS + 1
    with pebble.authority(tmp_path / "pebble", web, PORTS + 10, validity=20, host=BRIDGE) as authority:
        topology = lbgen.load(test_acme.topology(authority, engine, web, secure) | {"name": NAME})
        lbgen.up(topology, engine=engine, runtime="docker", accept=("all",), seconds=120)
        with test_acme.clients(secure) as kept:
            first = test_acme.wait_issued(secure)
            [certificate] = api.ps(NAME)[0].certificates
            assert certificate.issued
            authority.resolve(test_acme.NAMES[1], None)
            [finding] = test_acme.wait_for(lambda: api.ps(NAME)[0].warnings)
            assert finding.code == "LB435"
            assert test_acme.is_issued(test_acme.shown(secure))
            authority.resolve(test_acme.NAMES[1], "127.0.0.1")
            lbgen.reload(topology, accept=("all",))  # tries at once
            second = test_acme.wait_issued(secure, other_than=first.serial_number)
            test_acme.wait_for(lambda: not api.ps(NAME)[0].warnings)
            [agent] = [x.handle for x in list_containers(client.connect(), NAME) if x.record.role is Role.AGENT]
            os.kill(agent.attrs["State"]["Pid"], signal.SIGKILL)  # docker starts it again
            third = test_acme.wait_issued(secure, other_than=second.serial_number)
            test_acme.revoke(authority, third, test_acme.store(NAME))
            lbgen.reload(topology, accept=("all",))  # asks at once
            test_acme.wait_issued(secure, other_than=third.serial_number)
        print(f"{engine}: 4 certificates, {len(kept.lost)} of {kept.good} requests lost")  # noqa: T201
        assert kept.lost == []


@pytest.mark.drill
def test_engines_of_one_stack_share_what_one_of_them_orders(state, tmp_path):
    web, secure = PORTS, PORTS + 1
    first = web + 10_000  # where one of several engines serves
    with pebble.authority(tmp_path / "pebble", first, PORTS + 10, validity=20, host=BRIDGE) as authority:
        data = lbgen.load(test_acme.topology(authority, "nginx", web, secure) | {"name": NAME})
        stack = lbgen.up(data, test_acme.ENGINES, runtime="docker", accept=("all",), seconds=120)
        assert first in {stack.address("web", engine.name).port for engine in stack.engines}
        test_acme.share(stack)


@pytest.mark.parametrize("how", ["forward", "directory"])
@pytest.mark.parametrize("engine", sample(test_acme.ENGINES, ("nginx",)))
def test_another_client_gets_its_certificate(engine, how, state, tmp_path):
    web, secure = PORTS, PORTS + 1
    with (
        pebble.authority(tmp_path / "pebble", web, PORTS + 10, host=BRIDGE) as authority,
        test_acme.acme_client(tmp_path, authority, BRIDGE) as (other, port),
    ):
        data = test_acme.kept_elsewhere(tmp_path, how, BRIDGE, port, NAME, web, secure)
        lbgen.up(data, engine=engine, runtime="docker", accept=("all",), seconds=120)
        test_acme.obtain(other, tmp_path, web)
