"""Which clauses a listener keeps to the letter, and which features it uses no more when they are left to its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import LEFT_TO_ENGINE, MEANINGS, Guarantee, Guarantees
from lbgen.plan.resolve import findings

if TYPE_CHECKING:
    from lbgen.plan.model import Listener, Plan

NEVER = {Feature.PATHS_STRICT, Feature.FRAMING, Feature.MALFORMED, Feature.CONNECTION_NOMINATED}
NEVER |= {Feature.STATUSES, Feature.FAILURES}


def topology(listener: dict[str, Any] | None = None, **more: Any) -> lbgen.Topology:
    return lbgen.load(
        {
            "version": 1,
            "name": "t",
            "listeners": {"web": {"port": 8080, **(listener or {})}},
            "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
            "routes": [{"name": "all", "forward": "app", **({"listeners": ["web"]} if listener else {})}],
            **more,
        }
    )


def plan_of(listener: dict[str, Any] | None = None, **more: Any) -> Plan:
    return lbgen.plan(topology(listener, **more))


def web(listener: dict[str, Any] | None = None, **more: Any) -> Listener:
    return plan_of(listener, **more).listener("web")


def test_everything_is_kept_unless_it_is_left() -> None:
    assert web().guarantees == Guarantees()
    assert Guarantees().left == ()
    assert set(MEANINGS) == set(Guarantee)
    assert {each.value for each in Guarantee} == set(Guarantees.__slots__)


def test_one_word_for_all_four() -> None:
    assert web(guarantees="engine").guarantees == LEFT_TO_ENGINE
    assert LEFT_TO_ENGINE.left == tuple(Guarantee)
    assert web({"guarantees": "engine"}).guarantees == LEFT_TO_ENGINE
    assert web({"guarantees": "contract"}, guarantees="engine").guarantees == Guarantees()


def test_a_listener_says_its_own_over_the_topology_one_by_one() -> None:
    found = web({"guarantees": {"framing": "contract"}}, guarantees={"framing": "engine", "answers": "engine"})
    assert found.guarantees == Guarantees(answers=False)


@pytest.mark.parametrize("paths", ["strict", "normalize", "verbatim", {"allow": ["empty_segments"]}])
def test_paths_that_are_written_hold(paths: object) -> None:
    kept = Guarantees(paths=True, framing=False, connection_options=False, answers=False)
    assert web({"paths": paths}, guarantees="engine").guarantees == kept
    assert web(paths=paths, guarantees="engine").guarantees == kept
    assert web({"guarantees": "engine"}, paths=paths).guarantees == kept


def test_the_profile_native_is_production_with_all_of_them_left() -> None:
    native, production = plan_of(profile="native"), plan_of(profile="production")
    assert native.listener("web").guarantees == LEFT_TO_ENGINE
    assert web(profile="native", guarantees={"framing": "contract"}).guarantees.left == (
        Guarantee.PATHS,
        Guarantee.CONNECTION_OPTIONS,
        Guarantee.ANSWERS,
    )
    kept = plan_of(profile="native", guarantees="contract")
    assert (kept.listeners, kept.routes, kept.containers) == (
        production.listeners,
        production.routes,
        production.containers,
    )


def test_features_of_what_is_left_are_not_used() -> None:
    left = plan_of(guarantees="engine").uses_by_feature().keys()
    kept = plan_of().uses_by_feature().keys()
    assert kept - left == NEVER
    assert left <= kept
    two = {"web": {"port": 1}, "other": {"port": 2, "guarantees": "engine"}}
    uses = plan_of(listeners=two).uses_by_feature()
    assert {use.field for feature in NEVER for use in uses[feature]} == {"listeners.web"}


def test_an_l4_listener_has_none() -> None:
    with pytest.raises(LbgenError) as stop:
        plan_of({"mode": "l4", "guarantees": "engine"})
    assert [(d.code, d.field) for d in stop.value.diagnostics] == [("LB206", "listeners.web.guarantees")]
    idle = findings(topology({"mode": "l4"}, guarantees="engine"))
    assert [d.field for d in idle if d.code == "LB288"] == ["guarantees"]
    own = findings(topology({"guarantees": {"framing": "contract"}}, guarantees={"framing": "engine"}))
    assert [d.field for d in own if d.code == "LB288"] == ["guarantees"]
    assert web({"mode": "l4"}, guarantees="engine").guarantees == Guarantees()


def test_words_that_are_none_of_the_two() -> None:
    for value, field in (("exact", "guarantees"), ({"paths": "exact"}, "guarantees.paths"), (1, "guarantees")):
        with pytest.raises(LbgenError) as stop:
            topology(guarantees=value)
        (found,) = stop.value.diagnostics
        assert found.field == field
        assert found.code in ("LB104", "LB105")
