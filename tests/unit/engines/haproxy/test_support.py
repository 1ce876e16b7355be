"""Verdicts of HAProxy."""

from __future__ import annotations

import pytest

from lbgen.engines.api import Level
from lbgen.engines.haproxy.support import VERSIONS, support
from lbgen.plan.features import all_features

REFUSED = {"listener.l4.udp", "route.retries.budget", "timeouts.request", "engines.forwarding.direct"}


@pytest.mark.parametrize("version", VERSIONS)
def test_no_feature_has_to_be_accepted(version: str) -> None:
    known = {feature: support(version)[feature] for feature in all_features()}
    assert {feature for feature, verdict in known.items() if verdict.level is Level.REFUSED} == REFUSED
    assert not [feature for feature, verdict in known.items() if verdict.level is Level.APPROXIMATE]
