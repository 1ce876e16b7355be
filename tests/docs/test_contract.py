"""The pages under docs/ cover what the code holds."""

from __future__ import annotations

import re
from pathlib import Path

from lbgen.conformance.case import case_files
from lbgen.conformance.report import group

DOCS = Path(__file__).parents[2] / "docs"
BY_SAFETY = {"3.framing", "3.smuggling", "3.hostile"}  # judged by what reaches an endpoint (lbgen/conformance/safety)


def test_every_clause_with_cases_is_in_the_contract_and_the_other_way_round() -> None:
    written = re.findall(r"^### (\d+\.[a-z0-9-]+)$", (DOCS / "contract.md").read_text(encoding="utf-8"), re.MULTILINE)
    tried = {group(case.clause) for file in case_files() for case in file.cases}
    assert len(written) == len(set(written))
    assert set(written) == tried | BY_SAFETY
    assert not tried & BY_SAFETY


def test_every_clause_has_a_rule_a_reason_and_an_example() -> None:
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    for clause in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        parts = [clause.count(f"**{part}.**") for part in ("Rule", "Why", "Example")]
        assert parts == [1, 1, 1], clause.partition("\n")[0]
