"""The safety promise on every L7 engine: an endpoint sees what the rules saw, whatever arrives.

`safety_known.yaml` lists what is still to be mended, by engine; nothing else may break a promise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.conformance.safety.run import guarded_plan, judge_safety
from lbgen.engines.api import Level, engine
from lbgen.plan.features import Feature

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]
KNOWN = yaml.safe_load(Path(__file__).with_name("safety_known.yaml").read_text(encoding="utf-8")) or {}
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
    known = KNOWN.get(subject.engine, ())
    new = [str(each) for each in report.breaches if f"{each.rule} {each.attack}" not in known]
    assert not new, "\n".join(new)
    assert report.tried > 1000
    assert not report.not_tried
