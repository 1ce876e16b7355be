"""`lbgen bench --faults` on a real engine: each fault shows, and stays within what the topology allows."""

from __future__ import annotations

import msgspec
import pytest

import lbgen
from lbgen.bench.faults import Fault
from lbgen.bench.faults.run import drill
from tests.support.engine_lists import need_binary
from tests.support.schemas import valid

pytestmark = [pytest.mark.engines, pytest.mark.measures]  # other tests delay its probes, which looks like a fault
# Of three endpoints without retries each fault fails a third of the requests; half of the time where it comes and goes.
FAILED = {Fault.RESET: (70, 130), Fault.FLAP: (30, 70), Fault.KILL: (80, 400), Fault.RELOAD: (0, 0)}


def test_faults_show_and_stay_within_the_envelope() -> None:
    need_binary("haproxy")
    topology = lbgen.load(
        {
            "version": 1,
            "name": "drill",
            "listeners": {"web": {"port": 8080}},
            "pools": {"app": {"endpoints": [{"address": f"10.0.0.{n}:80"} for n in (1, 2, 3)]}},
            "routes": [{"name": "all", "forward": "app"}],
        }
    )
    found = drill(topology, ("haproxy",), tuple(FAILED), requests=10)
    assert (found.exit_code, [x.fault for x in found.faults]) == (0, list(FAILED)), found.faults
    assert len(valid("bench", msgspec.json.encode(found))["faults"]) == len(FAILED)
    for each in found.faults:
        low, high = FAILED[each.fault]
        assert low <= each.failed <= high, each
        assert each.requests == 550
    assert found.faults[0].failed > 0  # nothing is tried again
