"""The safety promise on every L7 engine: an endpoint sees what the rules saw, whatever arrives."""

from __future__ import annotations

import pytest

from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.conformance.safety.run import guarded_plan, judge_safety
from lbgen.engines.api import Level, engine
from lbgen.plan.features import Feature

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]
# Envoy knows a strict reader of chunks from 1.38 on; the verdict of 1.37 on `framing` says so.
LONG_CHUNK = "\r\n\r\n3\r\nabcd\r\n0\r\n\r\n<hidden>"
L7 = tuple(
    each
    for each in engines_on_host()
    if each.binary is None or engine(each.engine).verdict(Feature.L7, each.version).level is not Level.REFUSED
)


@pytest.mark.parametrize("subject", L7, ids=lambda each: each.label.replace(" ", "-"))
def test_no_client_gets_past_a_rule(subject: EngineUnderTest) -> None:
    if subject.binary is None:
        pytest.skip(subject.gap)
    plan, _ = guarded_plan(subject)
    report = judge_safety(plan, subject)
    takes_long_chunks = (subject.engine, subject.version) == ("envoy", "1.37")
    found = [str(x) for x in report.breaches if not (takes_long_chunks and x.attack.endswith(LONG_CHUNK))]
    assert not found, "\n".join(found)
    assert report.tried > 1000
    assert not report.not_tried
