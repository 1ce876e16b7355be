"""Waiting for the routes of an engine that listens before it has them."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.runtime.common import readiness
from lbgen.runtime.common.route_probes import Probe, make_probes


@pytest.mark.parametrize(("guarantees", "refused"), [("contract", True), ("engine", False)])
def test_a_refusal_is_waited_for_only_where_the_contract_holds(
    guarantees: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` waited 20 s for each engine where it was left to them."""
    plan = lbgen.plan(
        lbgen.load(
            {
                "version": 1,
                "name": "x",
                "guarantees": guarantees,
                "listeners": {"web": {"port": 80}},
                "pools": {"app": {"endpoints": [{"address": "127.0.0.1:1"}], "stand_ins": False}},
                "routes": [{"name": "all", "forward": "app"}],
            }
        )
    )
    asked: list[str] = []

    def ask(probe: Probe, host: str, port: int) -> str:
        asked.append(str(probe.request and probe.request.target))
        return ""

    monkeypatch.setattr(readiness, "ask", ask)
    assert readiness.wait(plan, make_probes(plan), lambda name: ("127.0.0.1", 80), seconds=5) == ()
    assert (readiness._REFUSED_TARGET in asked) is refused
