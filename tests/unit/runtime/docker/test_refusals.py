"""What is refused in containers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbgen.diagnostics import LbgenError
from lbgen.engines.api import engine
from lbgen.runtime.docker import refusals
from lbgen.runtime.docker.apply import choose_image
from tests.engines.test_nftables import plan, pool
from tests.unit.engines.nftables.test_health_checks import CHECKS

CHECKED = plan(replace(pool("10.0.0.1", (1, 1)), active=CHECKS))


def test_rules_in_the_kernel_have_no_agent_in_a_container():
    (found,) = refusals.diagnostics(CHECKED, engine("nftables"))
    assert (found.code, found.field) == ("LB301", "pools.pg.health.active")
    assert "--runtime local" in found.hint
    assert not refusals.diagnostics(CHECKED, engine("nginx"))
    assert not refusals.diagnostics(plan(pool("10.0.0.1", (1, 1))), engine("nftables"))


def test_up_refuses_it_before_it_looks_for_an_image():
    with pytest.raises(LbgenError, match=r"health\.active is refused"):
        choose_image(CHECKED, engine("nftables"), ("all",), lambda *_: pytest.fail("it looked"))
