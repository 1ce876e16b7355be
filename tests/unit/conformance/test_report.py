"""Results become a matrix, JSON and Markdown between markers."""

import json
from io import StringIO

from rich.console import Console

from lbgen.conformance.report import as_json, cell, insert, markdown, matrix, table, tables
from lbgen.conformance.runner import CaseState, Result

RESULTS = [
    Result("nginx 1", "a", "2.x.y", "2.x.y", CaseState.PASS),
    Result("nginx 1", "a", "2.x.y/2", "2.x.y", CaseState.FAIL, "status 1", "curl x"),
    Result("nginx 1", "a", "3.x.z", "3.x.z", CaseState.APPROXIMATE, "differs so; status 2"),
    Result("envoy 2", "a", "2.x.y", "2.x.y", CaseState.REFUSED, "route.x: not yet"),
    Result("envoy 2", "a", "2.x.y/2", "2.x.y", CaseState.REFUSED, "route.x: not yet"),
    Result("envoy 2", "a", "3.x.z", "3.x.z", CaseState.SKIPPED, "no binary"),
]


def test_cells_say_what_was_run() -> None:
    assert cell(RESULTS[:2]) == (CaseState.FAIL, "1/2 (1 fail)")
    assert cell(RESULTS[3:5]) == (CaseState.REFUSED, "refused")
    assert cell(RESULTS[:1]) == (CaseState.PASS, "1/1")
    assert cell(()) == (None, "-")


def test_a_skip_is_no_pass() -> None:
    assert cell([RESULTS[0], RESULTS[5]]) == (CaseState.SKIPPED, "1/2 (1 skipped)")


def test_matrix_and_markdown() -> None:
    rows = dict(matrix(RESULTS))
    assert rows["2.x"] == [(CaseState.FAIL, "1/2 (1 fail)"), (CaseState.REFUSED, "refused")]
    text = markdown(RESULTS)
    assert "| [2.x](contract.md#2x) | 1/2 (1 fail) | refused |" in text
    assert "- nginx 1: differs so (1 case)" in text
    assert "- envoy 2: route.x: not yet (2 cases)" in text
    Console(quiet=True).print(table(RESULTS))


def test_a_narrow_terminal_gets_a_table_for_each_engine() -> None:
    results = [
        Result(f"{name} {number}.0.1", "a", "2.precedence.y", "2.precedence.y", CaseState.PASS)
        for name in ("envoy", "nginx", "haproxy")
        for number in range(4)
    ]
    wide, narrow = Console(width=200, file=StringIO()), Console(width=80, file=StringIO())
    assert len(tables(results, wide)) == 1
    found = tables(results, narrow)
    narrow.print(*found, sep="\n\n")
    text = narrow.file.getvalue()
    assert len(found) == 3
    assert "envoy: Conformance" in text
    assert text.count("┃ 3.0.1 ") == 3, "no version is folded"


def test_json() -> None:
    data = json.loads(as_json(RESULTS))
    assert data["totals"]["nginx 1"] == {"pass": 1, "fail": 1, "approximate": 1}
    assert len(data["results"]) == 6


def test_insert_keeps_what_is_around(tmp_path) -> None:
    path = tmp_path / "README.md"
    begin, end = "<!-- conformance:begin -->", "<!-- conformance:end -->"
    path.write_text(f"a\n{begin}\nold\n{end}\nb\n")
    insert(path, "new\n")
    assert path.read_text() == f"a\n{begin}\nnew\n{end}\nb\n"
    insert(tmp_path / "x.md", "new\n")
    assert (tmp_path / "x.md").read_text() == "new\n"
