"""What the commands say of clauses that a topology leaves to its engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.cli.verify import report_notes
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.report import Report
from lbgen.conformance.verify.time_scaling import Scale

TOPOLOGY = """\
version: 1
name: left
{more}
listeners: {{ web: {{ port: 8080 }}, exact: {{ port: 8081, guarantees: contract }} }}
pools: {{ app: {{ endpoints: [{{ address: "10.0.0.1:80" }}] }} }}
routes: [{{ name: all, match: [{{ path: {{ prefix: /a }} }}], forward: app, max_body: 1MiB }}]
"""


@pytest.fixture
def left(tmp_path: Path) -> str:
    (tmp_path / "left.yaml").write_text(TOPOLOGY.format(more="profile: native"))
    return str(tmp_path / "left.yaml")


@pytest.fixture
def exact(tmp_path: Path) -> str:
    (tmp_path / "exact.yaml").write_text(TOPOLOGY.format(more=""))
    return str(tmp_path / "exact.yaml")


def lbgen(*args: str) -> str:
    done = CliRunner().invoke(group, args, env={"NO_COLOR": "1", "COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_explain_has_a_section_with_the_habits(left: str, exact: str) -> None:
    said = lbgen("explain", left, "-e", "nginx", "-e", "haproxy")
    section = said.partition("left to the engine")[2]
    for guarantee in ("paths", "framing", "connection_options", "answers"):
        assert f"\n{guarantee} (listener web): " in section
    assert section.count("\n  nginx: ") == section.count("\n  HAProxy: ") == 4
    assert "left to the engine" not in lbgen("explain", exact, "-e", "nginx")


def test_explain_json_has_them_under_a_name_of_their_own(left: str, exact: str) -> None:
    record: dict[str, Any] = json.loads(lbgen("explain", left, "-e", "nginx", "--json"))
    assert record.keys() == {"nginx", "left_to_engine"}
    assert [each["guarantee"] for each in record["left_to_engine"]["nginx"]] == [
        *("paths", "framing", "connection_options", "answers")
    ]
    assert all(each["listeners"] == ["web"] and each["habit"] for each in record["left_to_engine"]["nginx"])
    assert json.loads(lbgen("explain", exact, "-e", "nginx", "--json")).keys() == {"nginx"}


def test_check_names_the_listener_and_what_it_leaves(left: str, exact: str) -> None:
    note = "listener web: paths, framing, connection_options, answers left to the engine"
    assert note in lbgen("check", left, "--no-engines")
    assert "left to the engine" not in lbgen("check", exact, "--no-engines")


@pytest.mark.parametrize(
    ("args", "guarantee"),
    [
        (("GET", "http://h:8080/a//b"), "paths"),
        (("TRACE", "http://h:8080/a"), "framing"),
        (("GET", "http://h:8080/a", "-H", "Connection: x-b"), "connection_options"),
        (("GET", "http://h:8080/b"), "answers"),
        (("GET", "http://h:8080/a"), None),
        (("GET", "http://h:8081/a//b"), None),
    ],
)
def test_route_says_what_is_not_promised(left: str, args: tuple[str, ...], guarantee: str | None) -> None:
    assert json.loads(lbgen("route", left, *args, "--json"))["left_to_engine"] == guarantee
    assert (f"guarantees.{guarantee}" in lbgen("route", left, *args)) is (guarantee is not None)


def test_verify_counts_what_it_did_not_ask() -> None:
    states = [(CaseState.LEFT, "paths is left to the engine")] * 2 + [(CaseState.PASS, "")]
    results = tuple(Result("nginx 1.31", "f", f"{n}", "c", *state) for n, state in enumerate(states))
    report = Report("left", results, (), (), Scale(1.0, ()), "", 1.0)
    assert report.as_dict()["left_to_engine"] == {"paths": {"nginx 1.31": 2}}
    (note,) = report_notes(report)
    assert note == "left to the engine by guarantees.paths, not asked or not judged: nginx 1.31 2"
