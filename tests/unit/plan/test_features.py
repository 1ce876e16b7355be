"""The features of the contract by name."""

from __future__ import annotations

from lbgen.installed import engine_names
from lbgen.plan.features import Feature


def test_a_setting_of_one_engine_names_it():
    own = {feature: feature.only_engine for feature in Feature if feature.only_engine}
    assert own.keys() == {Feature.NFT_DIRECT}
    assert set(own.values()) <= set(engine_names())
