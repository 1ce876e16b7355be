"""The safety promise on every L7 engine: an endpoint sees what the rules saw, whatever arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.safety.run import guarded_plan, judge_safety
from tests.support.engine_lists import l7_engines_on_host, newest_first

if TYPE_CHECKING:
    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]
# Envoy knows a strict reader of chunks from 1.38 on; the verdict of 1.37 on `framing` says so.
LONG_CHUNK = "\r\n\r\n3\r\nabcd\r\n0\r\n\r\n<hidden>"


@pytest.mark.parametrize("subject", newest_first(l7_engines_on_host()))
def test_no_client_gets_past_a_rule(subject: EngineUnderTest) -> None:
    plan, _ = guarded_plan(subject)
    report = judge_safety(plan, subject)
    takes_long_chunks = (subject.engine, subject.version) == ("envoy", "1.37")
    found = [str(x) for x in report.breaches if not (takes_long_chunks and x.attack.endswith(LONG_CHUNK))]
    assert not found, "\n".join(found)
    assert report.tried > 1000
    assert not report.not_tried
