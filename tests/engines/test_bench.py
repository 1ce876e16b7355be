"""`lbgen bench` on real engines: figures for each, an interrupt that leaves nothing, an engine that differs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import msgspec
import pytest

import lbgen
from lbgen.bench import cost, gate, report
from lbgen.bench.load import LoadShape
from lbgen.bench.subjects import BODY_BYTES, Unit, running
from lbgen.bench.target import choose_target
from lbgen.engines.api import engine
from lbgen.runtime.common.certificates import write_self_signed
from tests.support.engine_lists import need_binary
from tests.support.schemas import valid

pytestmark = [
    pytest.mark.engines,
    pytest.mark.xdist_group("runtime"),
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed"),
]
SHOP = Path(__file__).parents[2] / "examples" / "shop" / "topology.yaml"
ENGINES = ("nginx", "haproxy")
LATE = 0.03  # seconds after which endpoints answer: closed loops of them leave the CPUs to the tests beside this one


@pytest.fixture(autouse=True)
def _here() -> None:
    for name in ENGINES:
        need_binary(name)


def late(topology: lbgen.Topology) -> dict[str, float]:
    """All endpoints answer late."""
    return {endpoint.field: LATE for pool in lbgen.plan(topology).pools for endpoint in pool.endpoints}


def test_two_engines_and_the_endpoint_have_figures() -> None:
    steps: list[str] = []
    topology = lbgen.load(SHOP)
    found = lbgen.bench(
        topology,
        ENGINES,
        connections=(5,),
        seconds=1,
        rounds=2,
        rates=(50,),
        delays=late(topology),
        requests=40,
        progress=lambda step: steps.append(step.what),
    )
    assert [row.subject for row in found.rows] == ["direct", *ENGINES] * 2
    assert [row.rate for row in found.rows] == [None] * 3 + [50] * 3
    assert (found.exit_code, found.not_measured) == (0, ())
    for row in found.rows:
        assert (row.errors, row.not_2xx_3xx) == (0, 0)
        assert row.requests_per_second.median > 10
        assert 0 < row.p50_ms.median <= row.p99_ms.median
        if row.subject != "direct":
            assert row.cpu_us_per_request is not None
            assert 1 < row.cpu_us_per_request.median < 100_000
            assert 1 < (row.peak_memory_mib or 0) < 2_000
        if row.rate is not None:
            assert row.p95_ms is not None
            assert row.p999_ms is not None
            assert row.p95_ms.median <= row.p99_ms.median <= row.p999_ms.median
            assert row.requests == 100
    assert all(each.verified_cases > 20 for each in found.engines)
    order = [step.partition(": ")[2].partition(",")[0] for step in steps if step.startswith("round ")]
    assert order == ["direct", *ENGINES] * 4


@pytest.mark.drill
def test_profiles_side_by_side() -> None:
    topology = lbgen.load(SHOP)
    few = {"connections": (5,), "seconds": 1, "rounds": 1, "rates": (), "requests": 10, "delays": late(topology)}
    found = lbgen.bench(topology, ["haproxy"], profiles=("minimal", "production"), **few)
    assert [row.subject for row in found.rows] == ["direct", "haproxy, minimal", "haproxy, production"]
    assert [engine.engine for engine in found.engines] == [row.subject for row in found.rows[1:]]
    minimal, production = (next(iter(files.values())) for files in found.configurations.values())
    assert minimal != production


@pytest.mark.drill
@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load (nghttp2-client) is not installed")
def test_tls_over_both_versions_of_http(tmp_path: Path) -> None:
    write_self_signed(tmp_path / "c.pem", tmp_path / "k.pem", ("a.example",))
    pair = {"cert": "c.pem", "key": "k.pem"}
    topology = {
        "version": 1,
        "name": "secure",
        "listeners": {"web": {"port": 8443, "tls": {"certificates": [pair]}}, "tcp": {"port": 9000, "mode": "l4"}},
        "pools": {name: {"endpoints": [{"address": "10.0.0.1:80"}]} for name in ("app", "raw")},
        "routes": [
            {"name": "all", "listeners": ["web"], "forward": "app"},
            {"name": "tcp", "listeners": ["tcp"], "forward": "raw"},
        ],
    }
    loaded = lbgen.load(topology, base=tmp_path)
    few = {"connections": (20,), "seconds": 1, "rounds": 1, "requests": 10, "delays": late(loaded)}
    found = lbgen.bench(loaded, ENGINES, rates=(50,), new_connections=True, **few)
    shapes = [LoadShape(20), LoadShape(20, keep_alive=False), LoadShape(2, streams=10), LoadShape(20, 50)]
    assert list(dict.fromkeys(row.shape for row in found.rows)) == shapes
    assert [row.subject for row in found.rows if row.streams] == list(ENGINES)
    assert [(row.errors, row.not_2xx_3xx) for row in found.rows] == [(0, 0)] * 11
    assert any("without TLS" in note for note in found.notes)
    forwarded = lbgen.bench(loaded, ENGINES, listener="tcp", rates=(), **few)
    assert [(row.subject, row.errors, row.not_2xx_3xx) for row in forwarded.rows] == [
        (name, 0, 0) for name in ("direct", *ENGINES)
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="nftables needs root")
def test_what_forwards_in_the_kernel_has_the_time_of_its_interrupts() -> None:
    need_binary("nftables")
    topology = {
        "version": 1,
        "name": "kernel",
        "profile": "internal-l4",
        "accept": {"all": ["all"]},
        "listeners": {"tcp": {"port": 9000, "mode": "l4"}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
        "routes": [{"name": "all", "listeners": ["tcp"], "forward": "app"}],
    }
    few = {"connections": (20,), "seconds": 1, "rounds": 2, "rates": (), "requests": 10}  # as fast as can be
    found = lbgen.bench(lbgen.load(topology), [engine("nftables")], **few)
    _, row = found.rows
    assert (row.subject, row.kernel, row.errors, row.not_2xx_3xx) == ("nftables", True, 0, 0)
    assert row.cpu_us_per_request is None or 0 < row.cpu_us_per_request.median < 100
    assert row.peak_memory_mib is None


def received(device: str) -> int:
    """Bytes that have come by an interface of this network namespace."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(x.split(":")[1].split()[0]) for x in lines if x.strip().startswith(f"{device}:"))


@pytest.mark.skipif(os.geteuid() != 0, reason="nftables needs root")
def test_answers_of_direct_forwarding_bypass_the_balancer() -> None:
    need_binary("nftables")
    topology = lbgen.load(
        {
            "version": 1,
            "name": "direct",
            "profile": "internal-l4",
            "accept": {"all": ["all"]},
            "engines": {"nftables": {"forwarding": "direct"}},
            "listeners": {"tcp": {"port": 9000, "mode": "l4", "address": "192.0.2.10"}},
            "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
            "routes": [{"name": "all", "listeners": ["tcp"], "forward": "app"}],
        }
    )
    plan = lbgen.plan(topology)
    (good,), _ = gate.verified_engines(plan, ["nftables"], ("all",), 10, lambda event: None, kernel=True)
    choice, measured = good
    assert measured.verified_cases == 0  # one host cannot verify it
    with running([Unit("direct", choice, plan, choose_target(plan))], ("all",)) as ((_, subject), failed):
        assert not failed
        before = received(subject.process.network.device)
        requests = 20
        for _ in range(requests):
            with urllib.request.urlopen(f"http://{subject.address}:{subject.port}/", timeout=5) as answer:
                assert len(answer.read()) == BODY_BYTES
        assert received(subject.process.network.device) - before < BODY_BYTES  # no answer came from the balancer


@pytest.mark.drill
@pytest.mark.skipif(os.geteuid() != 0, reason="nftables needs root")
def test_a_variant_is_measured_beside_the_topology_by_the_engine_that_it_is_for() -> None:
    variants = {"direct": {"engines.nftables.forwarding": "direct"}}
    made = {
        "version": 1,
        "name": "variants",
        "profile": "internal-l4",
        "accept": {"all": ["all"]},
        "listeners": {"tcp": {"port": 9000, "mode": "l4", "address": "192.0.2.10"}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "listeners": ["tcp"], "forward": "app"}],
    }
    topology = lbgen.load(made)
    few = {"connections": (20,), "seconds": 1, "rounds": 1, "rates": (), "requests": 10, "delays": late(topology)}
    found = lbgen.bench(topology, ["haproxy", "nftables"], variants=variants, **few)
    assert [row.subject for row in found.rows] == ["direct", "haproxy", "nftables", "nftables, direct"]
    assert [(row.errors, row.not_2xx_3xx) for row in found.rows] == [(0, 0)] * 4


@pytest.mark.drill
def test_the_price_of_each_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = lbgen.load(SHOP)
    monkeypatch.setattr(cost, "running", partial(running, delays=late(topology)))
    found = cost.cost(topology, ("haproxy",), rounds=2, requests=10)
    assert (found.exit_code, [each.engine for each in found.costs]) == (0, ["haproxy"])
    assert valid("bench", msgspec.json.encode(found))["costs"][0]["engine"] == "haproxy"
    (haproxy,) = found.costs
    assert haproxy.failed == {}
    prices = {price.feature: price for price in haproxy.features}
    assert {"access_log", "other routes", "layer 7"} < prices.keys()
    assert prices["layer 7"].cpu_us_per_request.median > 0.1 * haproxy.cpu_us_per_request.median


def test_an_engine_that_differs_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = report.UnmeasuredEngine("nginx", report.Why.DIFFERS, ())
    monkeypatch.setattr(gate, "refused_engines", lambda verification: (refused,))
    topology = lbgen.load(SHOP)
    few = {"connections": (5,), "seconds": 1, "rounds": 1, "rates": (), "requests": 10, "delays": late(topology)}
    found = lbgen.bench(topology, ENGINES, **few)
    assert [row.subject for row in found.rows] == ["direct", "haproxy"]
    assert (found.not_measured, found.exit_code) == ((refused,), 4)


def test_an_interrupt_ends_engines_and_exits_130(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "lbgen",
        "bench",
        str(SHOP),
        "-e",
        "haproxy",
        "--seconds",
        "30",
        "--rounds",
        "1",
        "--connections",
        "1",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    tmp_path.chmod(0o755)
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("round 1"):
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    assert not [each for each in Path("/proc").iterdir() if each.name.isdigit() and _runs_in(each, str(tmp_path))]
    assert not list(tmp_path.iterdir())


def _runs_in(process: Path, folder: str) -> bool:
    try:
        return str((process / "cwd").readlink()).startswith(folder)
    except OSError:
        return False
