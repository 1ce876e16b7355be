"""Verdicts of HAProxy."""

from __future__ import annotations

import pytest

from lbgen.engines.api import Level
from lbgen.engines.haproxy.support import VERSIONS, support
from lbgen.plan.features import Feature

REFUSED = {Feature.L4_UDP, Feature.RETRY_BUDGET, Feature.TIMEOUT_REQUEST, Feature.DIRECT}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_feature_has_a_verdict_and_none_has_to_be_accepted(version: str) -> None:
    known = support(version)
    assert set(known) == set(Feature)
    assert {feature for feature, verdict in known.items() if verdict.level is Level.REFUSED} == REFUSED
    assert not [feature for feature, verdict in known.items() if verdict.level is Level.APPROXIMATE]
