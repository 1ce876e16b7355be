"""Findings as text with a source line, as SARIF and as annotations of GitHub."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sarif_pydantic import Sarif

from lbgen.cli.findings import excerpt, github, sarif
from lbgen.diagnostics import Diagnostic, Severity, Span

FOUND = [
    Diagnostic("LB104", "port 70000 is above 65535", Span("a b/shop.yaml", 3, 27), "listeners.web.port"),
    Diagnostic("LB266", "50 % of it, or more", Span("shop.yaml", 7, 5), hint="one\ntwo", severity=Severity.ADVICE),
    Diagnostic("LB110", "no such file", Span("none.yaml"), severity=Severity.WARNING),
]


def test_annotations() -> None:
    assert github(FOUND).splitlines() == [
        "::error file=a b/shop.yaml,line=3,col=27,title=LB104 listeners.web.port::"
        "listeners.web.port: port 70000 is above 65535",
        "::notice file=shop.yaml,line=7,col=5,title=LB266::50 %25 of it, or more; one%0Atwo",
        "::warning file=none.yaml,line=1,col=1,title=LB110::no such file",
    ]


def test_sarif_is_valid() -> None:
    log = Sarif.model_validate(sarif(FOUND))
    (run,) = log.runs
    assert run.results is not None
    assert [(each.rule_id, each.level and each.level.value) for each in run.results] == [
        ("LB104", "error"),
        ("LB266", "note"),
        ("LB110", "warning"),
    ]
    written = sarif(FOUND)["runs"]
    assert isinstance(written, list)
    place = written[0]["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b/shop.yaml"}, "region": {"startLine": 3, "startColumn": 27}}
    assert "region" not in written[0]["results"][2]["locations"][0]["physicalLocation"]
    rules = written[0]["tool"]["driver"]["rules"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in written[0]["results"])


def test_sarif_without_findings_is_valid() -> None:
    assert Sarif.model_validate(sarif([])).runs[0].results == []


def test_the_source_line(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("version: 1\nlisteners: { web: { port: 70000 } }\n")
    assert excerpt(Span(str(path), 2, 21)) == [
        "  2 | listeners: { web: { port: 70000 } }",
        "    |                     ^",
    ]


@pytest.mark.parametrize("span", [Span("none.yaml", 3, 1), Span("none.yaml"), Span("--set x")])
def test_a_place_without_a_source_line(span: Span) -> None:
    assert excerpt(span) == []


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(1, 400))
def test_the_caret_is_below_its_column(tmp_path_factory: pytest.TempPathFactory, text: str, column: int) -> None:
    path = tmp_path_factory.mktemp("source") / "t.yaml"
    path.write_text(f"{text}\n", encoding="utf-8", newline="")
    lines = excerpt(Span(str(path), 1, column))
    assert all(line.isprintable() and len(line) <= 410 for line in lines)
    if lines and column <= len(text) and text.isprintable():
        at = lines[1].index("^")
        assert lines[0][at] == text[column - 1]
