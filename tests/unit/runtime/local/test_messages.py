"""The digest of what a stack serves is the same in every process, so that `up` finds out that nothing changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lbgen.runtime.common.saved import decode, encode
from lbgen.runtime.local.messages import StartRequest
from tests.unit.runtime.common.test_saved import PLANS

ROOT = Path(__file__).parents[4]
DIGEST = """
import lbgen
from lbgen.runtime.local.messages import StartRequest
retries = {"max": 1, "on": ["connect_failure", "reset", "timeout"]}
made = lbgen.load({
    "version": 1,
    "name": "x",
    "profile": "minimal",
    "listeners": {"web": {"port": 8080}},
    "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
    "routes": [{"name": "r", "forward": "app", "retries": retries}],
})
print(StartRequest("x", "", lbgen.plan(made), (), (), True, 1.0).digest)
"""


def test_it_does_not_depend_on_hashes() -> None:
    seeds = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "1234"]
    made = [subprocess.run([sys.executable, "-c", DIGEST], env=env, cwd=ROOT, capture_output=True) for env in seeds]
    assert len({each.stdout for each in made}) == 1, made
    assert made[0].stdout


@pytest.mark.parametrize("example", PLANS)
def test_it_does_not_depend_on_who_has_the_plan(example: str) -> None:
    """A supervisor computes it of a plan that it has read."""
    made = StartRequest("x", "", PLANS[example], (), (), True, 1.0)
    assert decode(encode(made), StartRequest).digest == made.digest
