"""`up`, `ps`, `logs` and `down` from the command line, on real engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from lbgen.engines.api import engine
from lbgen.runtime.common.executables import find
from tests.support.command import run_lbgen

ROOT = Path(__file__).parents[2]
SHOP = str(ROOT / "examples/shop/topology.yaml")
pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]


@pytest.fixture
def lbgen(tmp_path):
    run = partial(run_lbgen, state=tmp_path)
    yield run
    run("down", "--all")


def installed(name: str) -> bool:
    try:
        find(engine(name))
    except Exception:  # noqa: BLE001 - any reason will do
        return False
    return True


def test_a_stack_from_up_to_down(lbgen):
    if not installed("nginx"):
        pytest.skip("no nginx")
    up = lbgen("up", SHOP, "--runtime", "local", "-e", "nginx", "--json")
    assert up.returncode == 0, up.stderr
    record = json.loads(up.stdout)
    url = record["engines"][0]["urls"]["web"]
    assert url == "http://127.0.0.1:8080"  # one engine binds the topology's own ports
    request = urllib.request.Request(f"{url}/api/x", headers={"Host": "shop.example", "x-canary": "true"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert json.load(answer)["pool"] == "api-v2"

    again = lbgen("up", SHOP, "--runtime", "local", "-e", "nginx")
    assert again.returncode == 0
    assert "is up to date" in again.stderr

    assert "shop" in lbgen("ps").stdout
    assert json.loads(lbgen("ps", SHOP, "--json").stdout)[0]["alive"] is True
    assert lbgen("logs", "shop", "-e", "nginx").returncode == 0
    wrong = lbgen("logs", "nothing")
    assert wrong.returncode == 3  # it may be among those that cannot be seen
    assert "LB420" in wrong.stderr
    wrong = lbgen("logs", "shop", "-e", "haproxy")
    assert wrong.returncode == 2
    assert "LB406" in wrong.stderr

    down = lbgen("down", SHOP)
    assert down.returncode == 0, down.stderr
    assert "stopped shop: nginx" in down.stdout
    assert "no stack is running" in lbgen("ps").stdout
    assert lbgen("down").returncode == 3


def test_an_engine_that_refuses_stops_up(lbgen):
    done = lbgen("up", SHOP, "--runtime", "local", "-e", "nftables")
    assert done.returncode == 1
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_completion_knows_verbs_and_engines():
    env = {**os.environ, "_LBGEN_COMPLETE": "bash_complete", "COMP_WORDS": "lbgen render x -e ", "COMP_CWORD": "4"}
    script = Path(sys.executable).parent / "lbgen"
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False, env=env)
    assert "plain,haproxy" in done.stdout.splitlines()
