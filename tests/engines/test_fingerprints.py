"""The stored fingerprints are those of the engines that run here."""

from __future__ import annotations

import pytest

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.fingerprint import compare, measure, read_stored

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("subject", engines_on_host(), ids=lambda s: f"{s.engine}-{s.version}")
def test_an_engine_answers_as_stored(subject) -> None:
    if subject.binary is None:
        pytest.skip(subject.gap)
    found = measure(subject.engine, subject.version)
    expected = read_stored(subject.engine, subject.version)
    differences = [(each.probe, each.before, each.after) for each in compare(expected, found)]
    assert not differences, f"{subject.label} against the stored profile"
