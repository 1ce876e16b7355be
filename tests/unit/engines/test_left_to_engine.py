"""What a plan leaves to an engine: the guarantee, the listeners, and a sentence with the engine's own habit."""

from __future__ import annotations

from typing import Any

import pytest

import lbgen
from lbgen.engines.api import engines
from lbgen.engines.left_to_engine import Habitual, left_to_engine
from lbgen.engines.verdicts import judge
from lbgen.plan.guarantees import Guarantee

DATA: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}, "exact": {"port": 8081, "guarantees": "contract"}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}], "protocol": "http2"}},
    "routes": [{"name": "all", "forward": "app", "response_headers": {"set": {"x-a": "b"}}}],
    "guarantees": "engine",
}
L7 = sorted(name for name, engine in engines().items() if isinstance(engine, Habitual))


def test_every_engine_that_reads_requests_says_its_habits() -> None:
    assert L7 == ["envoy", "haproxy", "nginx", "traefik"]


@pytest.mark.parametrize("name", L7)
def test_what_is_left_has_a_sentence_and_its_listeners(name: str) -> None:
    engine = engines()[name]
    for version in engine.versions:
        found = left_to_engine(lbgen.plan(lbgen.load(DATA)), engine, version)
        assert [(each.guarantee, each.listeners) for each in found] == [(each, ("web",)) for each in Guarantee]
        assert all(len(each.habit) > 20 and not each.habit.endswith(".") for each in found)
        assert found[0].as_dict() == {"guarantee": "paths", "habit": found[0].habit, "listeners": ["web"]}


@pytest.mark.parametrize("name", L7)
def test_what_is_left_is_no_verdict(name: str) -> None:
    """Objections about a listener included: with one listener that leaves all four, none of their features is named."""
    engine = engines()[name]
    listeners = {"web": {"port": 8080}}
    left = lbgen.plan(lbgen.load({**DATA, "listeners": listeners}))
    features = left.listener("web").guarantees.unused_features
    for version in engine.versions:
        answers, _ = judge(left, engine, version)
        assert not {answer.feature for answer in answers} & features


def test_an_engine_without_habits_still_lists_them() -> None:
    found = left_to_engine(lbgen.plan(lbgen.load(DATA)), engines()["nftables"], "1.0")
    assert {each.habit for each in found} == {"nftables does not say what it does then"}
