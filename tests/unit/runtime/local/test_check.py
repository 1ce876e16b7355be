"""What an engine's own checker says becomes diagnostics."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from lbgen.engines.api import Binary, CheckSpec
from lbgen.engines.nftables import ENGINE as NFTABLES
from lbgen.engines.rendered import render_with
from lbgen.runtime.local.check import check
from tests.engines.test_nftables import plan as l4_plan
from tests.engines.test_nftables import pool
from tests.support.fake_engine import FakeEngine, write_program
from tests.unit.runtime.local.test_process import plan

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

pytestmark = pytest.mark.xdist_group("runtime")


@pytest.fixture
def program(tmp_path_factory):
    return write_program(tmp_path_factory.mktemp("program"))


def test_a_content_checker_says_nothing(program):
    assert check(plan(), FakeEngine(program)) == ()


def test_each_problem_is_one_diagnostic(program):
    (found,) = check(plan("bad.example"), FakeEngine(program))
    assert found.code == "LB401"
    assert found.message == "Fake 1.0.3: fake.json:3 unhappy"


def test_ports_of_root_are_exchanged(program):
    @dataclass(frozen=True)
    class Strict(FakeEngine):
        def check(self, plan: Plan, binary: Binary, directory) -> CheckSpec:
            assert plan.listeners[0].port in (80, 24_100) or plan.listeners[0].port >= 20_000
            return CheckSpec(("grep", "-c", '"port": 80}', "fake.json"), lambda code, out, _: () if code else (out,))

    assert check(plan(port=80), Strict(program)) == ()


def test_files_that_are_there_are_checked_as_they_stand_unless_a_port_is_exchanged(program):
    rendered = []

    @dataclass(frozen=True)
    class Counting(FakeEngine):
        def render(self, plan, version):
            rendered.append(plan)
            return super().render(plan, version)

    there = render_with(FakeEngine(program), plan("bad.example"), "1.0.3", ())
    (found,) = check(plan(), Counting(program), rendered=there)
    assert found.message == "Fake 1.0.3: fake.json:3 unhappy"
    assert not rendered
    assert check(replace(plan(), listeners=(replace(plan().listeners[0], address="192.0.2.77"),)), Counting(program),
                 rendered=there) == ()  # fmt: skip
    assert len(rendered) == 1


def test_a_checker_that_serves_is_asked_on_spare_ports(program):
    @dataclass(frozen=True)
    class Serving(FakeEngine):
        def check(self, plan: Plan, binary: Binary, directory) -> CheckSpec:
            # The fake answers with its admin port on every port; let it listen there.
            def judge(code, output, answers):
                return () if answers == {"/state": plan.admin_port} else (f"{code} {answers} {output}",)

            return CheckSpec((str(binary.path),), judge, serves=True, ask=("/state",))

        def render(self, plan, version):
            admin = replace(plan.listeners[0], address="127.0.0.1", port=plan.admin_port or 1)
            assert plan.listeners[0].port != 24_100
            return super().render(replace(plan, listeners=(*plan.listeners, admin)), version)

    assert check(plan(), Serving(program)) == ()
    (died,) = check(plan("die.example"), Serving(program))
    assert "cannot go on" in died.message


@pytest.mark.engines
@pytest.mark.skipif(shutil.which("nft", path="/usr/sbin:/usr/bin:/sbin") is None, reason="needs nft")
def test_nft_checks_its_file():
    assert check(l4_plan(pool("10.0.0.1", (5, 3, 2))), NFTABLES) == ()
