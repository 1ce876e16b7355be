"""Direct forwarding: the laboratory of the example, what is refused, and numbers that stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lbgen
from lbgen.conformance.prepare import verdicts_on
from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.api import Binary
from lbgen.engines.nftables import run, upstreams
from tests.engines.test_nftables import needs_kernel

EXAMPLE = Path(__file__).parents[2] / "examples/direct-routing"


def topology(**edits: object) -> lbgen.Topology:
    data = lbgen.load(EXAMPLE / "topology.yaml").model.model_dump(exclude_none=True, exclude_unset=True, mode="json")
    return lbgen.load({**data, **edits})


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
def test_replies_bypass_the_balancer_and_open_connections_stay() -> None:
    done = subprocess.run([sys.executable, EXAMPLE / "lab.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    every = json.loads(done.stdout)
    assert every.keys() == {"L3", "L2"}
    for found in every.values():
        assert found["packets"]["replies"] == 0
        assert found["packets"]["requests"] > 500
        assert found["open that stayed"] == 40


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
def test_nodes_behind_an_edge_in_the_kernel_answer_by_themselves() -> None:
    lab = EXAMPLE.parent / "hybrid-edge/lab.py"
    done = subprocess.run([sys.executable, lab], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["packets"]["replies"] == 0
    assert found["packets"]["requests"] > 500


def test_an_interface_that_this_host_lacks_is_no_problem_of_the_rules() -> None:
    absent = 'lbgen.nft:1:1-2: Error: Interface does not exist\n\t\tfwd ip to 10.0.0.1 device "eth0"\n\t\t   ^^^^^^\n'
    judge = run.check(lbgen.plan(topology()), Binary(Path("nft"), "1.0.6"), Path()).judge
    assert judge(1, absent * 2, {}) == ()
    assert judge(1, f"{absent}lbgen.nft:3:1-2: Error: syntax error\n{absent}", {})[0].endswith("syntax error")


WEB = {"port": 80, "mode": "l4", "address": "10.77.2.100"}
END = {"address": "10.77.2.11:8000"}


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"listeners": {"web": {"port": 80, "mode": "l4"}}}, "needs a listener that names one"),
        (
            {
                "listeners": {"web": {**WEB, "address": "fd00::1"}},
                "pools": {"web": {"endpoints": [{"address": "[fd00::2]:80"}]}},
            },
            "cannot keep IPv6 flows in a map",
        ),
        ({"listeners": {"web": {**WEB, "max_connections": 5}}}, "does not track connections"),
        ({"listeners": {"web": WEB, "other": {**WEB, "port": 81}}}, "listener web uses it as well"),
        ({"pools": {"web": {"endpoints": [END], "balance": "least_connections"}}}, "does not track connections"),
        ({"pools": {"web": {"endpoints": [END], "connections": {"max_per_endpoint": 2}}}}, "does not track"),
    ],
)
def test_what_direct_forwarding_cannot_do_is_refused_with_the_reason(edits: dict[str, object], why: str) -> None:
    base = {
        "listeners": {"web": WEB},
        "pools": {"web": {"endpoints": [END]}},
        "routes": [{"name": "web", "listeners": list(edits.get("listeners", {"web": 1})), "forward": "web"}],  # type: ignore[call-overload]
    }
    with pytest.raises(LbgenError, match=why):
        lbgen.render(topology(**{**base, **edits}), engine="nftables", accept=("all",))


@pytest.mark.parametrize("engine", ["nftables", None])
def test_processes_of_this_host_cannot_do_it(engine: str | None) -> None:
    with pytest.raises(EngineError, match=r"LB403.*needs rules on the hosts of its endpoints.*--runtime docker"):
        lbgen.up(topology(), engine=engine, accept=("all",), runtime="local")


def test_what_is_said_to_one_engine_is_not_refused_for_others_in_a_verification() -> None:
    plan = lbgen.plan(topology())
    assert not verdicts_on(plan, "envoy", "1.40").listeners
    assert not verdicts_on(plan, "nginx", "1.31").listeners


def test_the_number_of_an_endpoint_does_not_depend_on_the_others() -> None:
    plan = lbgen.plan(topology())
    every = upstreams.numbers(plan, plan.route("web"))
    assert len(set(every.values())) == 3
    fewer = lbgen.plan(
        topology(
            pools={**topology().model.model_dump(exclude_unset=True, mode="json")["pools"], "web": {"endpoints": [END]}}
        )
    )
    assert upstreams.numbers(fewer, fewer.route("web")).items() <= every.items()
