"""Verdicts of HAProxy that depend on its version."""

from __future__ import annotations

import pytest

from lbgen.engines.haproxy.support import support
from lbgen.plan.features import Feature

ONLY_3_2 = ("before 3.2.10 (HAProxy issue 3209)", "before 3.2.23", "414 and 431")


@pytest.mark.parametrize("version", ["2.6", "2.8", "3.0", "3.2"])
def test_the_verdict_on_malformed_requests_names_fixes_of_3_2_there_only(version: str) -> None:
    note = support(version)[Feature.MALFORMED].note
    assert [text in note for text in ONLY_3_2] == [version == "3.2"] * len(ONLY_3_2)
