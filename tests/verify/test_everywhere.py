"""`lbgen verify` is green for what users meet first, also where it cannot keep the topology's addresses: without root,
and where endpoints are on loopback. A few requests and faults of each; the engines are started as ever."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lbgen
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.runner import CaseState, Result
from lbgen.runtime.local import network
from lbgen.runtime.local.spawn import User, is_reachable
from lbgen.spec.dump import dump
from lbgen.spec.load import load_bytes
from lbgen.spec.starter import starter, starters
from tests.support.sample import sample

Data = dict[str, Any]
ROOT = Path(__file__).parents[2]
# lab.py runs direct-routing, on hosts of its own.
EXAMPLES = sorted({path.parent.name for path in (ROOT / "examples").glob("*/topology.yaml")} - {"direct-routing"})
L7 = ("envoy", "haproxy", "nginx", "traefik")
REQUESTS, FAULTS = 15, 4
_VERIFY = (
    "import json, sys, lbgen\n"
    "path, requests, faults = json.loads(sys.argv[1])\n"
    "report = lbgen.verify(lbgen.load(path), requests=requests, most_faults=faults)\n"
    "print(json.dumps(report.as_dict()))\n"
)
# The interpreter may be in a folder of root's, which only this right opens to others.
_NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search"),
)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(any(engines_on_host((name,))[0].binary is None for name in L7), reason="an engine is missing"),
]


def verified_as_nobody(path: Path) -> Data:
    """The JSON record of a verification by a user without rights: nobody, or whoever runs the tests."""
    drop = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("no setpriv here, which becomes nobody")
        drop = _NOBODY
    if drop and not is_reachable(ROOT, User(65534, 65534)):
        pytest.skip(f"nobody cannot read {ROOT}, where this checkout and its engines are")
    argv = (*drop, sys.executable, "-c", _VERIFY, json.dumps([str(path), REQUESTS, FAULTS]))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    found: Data = json.loads(done.stdout)
    return found


def told(record: Data) -> list[str]:
    """What is not green, a line each."""
    broken = [str(left) for left in record["left_out"] if left["broken"]]
    wrong = [Result(**{**x, "state": CaseState(x["state"])}) for x in record["differences"]]
    return [f"{x.subject}, {x.case}: {x.detail}" for x in wrong] + broken


def one_route(pool: dict[str, Any] | None = None, listener: dict[str, Any] | None = None, **route: Any) -> Data:
    """A topology with one route, which has these further fields."""
    endpoints = [{"address": f"10.0.0.{number}:8080"} for number in (1, 2)]
    return {
        "version": 1,
        "name": "one",
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": {"a": {"endpoints": endpoints, **(pool or {})}},
        "routes": [{"name": "api", "forward": "a", **route}],
    }


SHARED = {
    **one_route(match=[{"path": {"prefix": "/b"}}], forward="b"),
    "pools": {
        "a": {"endpoints": [{"address": "10.0.0.1:8080"}]},
        "b": {"endpoints": [{"address": "10.0.0.1:8080"}], "connections": {"max_per_endpoint": 50}},
    },
}
SHARED["routes"].append({"name": "rest", "forward": "a"})
# Topologies that differ nowhere and were not green: by what they have in common, with the engine that showed it.
RED_ONCE: dict[str, tuple[str, Data]] = {
    "retries and checks": (
        "envoy",
        one_route(
            retries={"max": 2, "on": ["connect_failure", 502]},
            timeouts={"response": "5s"},
            pool={"health": {"active": {"path": "/healthz"}}},
        ),
    ),
    "no forwarded headers, one silence in a body and another before an answer": (
        "envoy",
        {
            **one_route(retries={"max": 2, "on": ["connect_failure", 502]}),
            "profile": "minimal",
            "accept": {"all": ["timeouts.idle"]},
        },
    ),
    "all routes have a rate": ("traefik", one_route(rate_limit={"rate": "10/s", "burst": 20, "key": "client_ip"})),
    "endpoints are names": (
        "haproxy",
        one_route({"endpoints": [{"address": "web-1:8080"}, {"address": "web-2:8080"}]}),
    ),
    "an endpoint in two pools": ("haproxy", SHARED),
    "checked on another port": ("haproxy", one_route({"health": {"active": {"path": "/", "port": 9000}}})),
    "checked by another status": ("nginx", one_route({"health": {"active": {"path": "/", "expect": [204]}}})),
    "an IPv6 address": ("envoy", one_route(listener={"address": "2001:db8::10"})),
}


@pytest.mark.parametrize("example", sample(EXAMPLES, EXAMPLES[-1:]))
def test_examples_without_root(example: str) -> None:
    record = verified_as_nobody(ROOT / "examples" / example / "topology.yaml")
    assert told(record) == []
    assert {x["state"] for x in record["results"]} >= {"pass"}


@pytest.mark.parametrize("template", sample(starters(), ("gateway",)))
def test_starters_without_root(template: str, tmp_path: Path) -> None:
    argv = (sys.executable, "-m", "lbgen", "init", "--template", template)
    subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path)
    record = verified_as_nobody(tmp_path / "topology.yaml")
    assert told(record) == []
    assert record["own_addresses"] is False


def test_the_starter_whose_endpoints_are_on_loopback() -> None:
    topology = load_bytes(starter().encode(), "topology.yaml", ROOT)
    report = lbgen.verify(topology, requests=REQUESTS, most_faults=FAULTS)
    assert told(report.as_dict()) == []
    assert not report.isolated


def test_an_address_that_this_host_lacks_without_root(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(dump(one_route(listener={"address": "192.0.2.10"})), encoding="utf-8")
    assert told(verified_as_nobody(file)) == []


@pytest.mark.root
@pytest.mark.skipif(bool(network.why_unavailable()), reason=network.why_unavailable() or "it is possible")
@pytest.mark.parametrize("name", sample(RED_ONCE, [*RED_ONCE][::5]))
def test_what_was_red_once(name: str) -> None:
    engine, topology = RED_ONCE[name]
    report = lbgen.verify(lbgen.load(topology), [engine], requests=REQUESTS, most_faults=FAULTS)
    assert told(report.as_dict()) == []
    assert report.results
