"""`${NAME}`, `${NAME:-default}` and `$$` in values; files with variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lbgen
from lbgen.spec.load import load
from lbgen.spec.variables import Unusable, environment, escape_references, names_in, replace_references

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = {"A": "one", "EMPTY": "", "ODD": "${A} $$ }"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "one"),
        ("x${A}y${A}", "xoneyone"),
        ("${NONE:-b c}", "b c"),
        ("${EMPTY:-b}", "b"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$${A}", "$${A}"),
        ("$$${A}", "$one"),
        ("^/v1$", "^/v1$"),
        ("$1 $A", "$1 $A"),
        ("${ODD}", "${A} $$ }"),  # what a variable holds is not read again
    ],
)
def test_references_are_replaced(text: str, value: str) -> None:
    assert replace_references(text, KNOWN) == value


@pytest.mark.parametrize(
    ("text", "code"), [("${NONE}", "LB132"), ("${}", "LB133"), ("${A", "LB133"), ("${1}", "LB133"), ("${A-b}", "LB133")]
)
def test_what_cannot_be_replaced(text: str, code: str) -> None:
    with pytest.raises(Unusable) as unusable:
        replace_references(text, KNOWN)
    assert unusable.value.code == code


@given(st.text("${}:-A$$x"))
def test_escaped_text_refers_to_nothing(text: str) -> None:
    assert replace_references(escape_references(text), {}) == text


def test_names() -> None:
    assert names_in("${A}${B:-${}$${C}${A}") == ("A", "B")


def test_a_file_with_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env"
    path.write_text("# ports\nPORT=8080\nexport NAME='two words'\nSHELL_WINS=file\n")
    monkeypatch.setenv("SHELL_WINS", "environment")
    known = environment(path)
    assert (known["PORT"], known["NAME"], known["SHELL_WINS"]) == ("8080", "two words", "environment")


@pytest.mark.parametrize(("text", "line"), [("PORT\n", 1), ("A=1\n\nA B=1\n", 3), ("A='x\n", 1)])
def test_a_line_that_sets_nothing(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "env"
    path.write_text(text)
    with pytest.raises(lbgen.LbgenError) as raised:
        environment(path)
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line) == ("LB135", line)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(lbgen.LbgenError, match="LB110"):
        environment(tmp_path / "none")


TOPOLOGY = """
version: 1
name: ${NAME}
listeners: { web: { port: "${PORT}" } }
pools: { app: { endpoints: [{ address: "10.0.0.1:${APP_PORT:-8080}" }] } }
routes: [{ name: all, forward: app, buffering: { request: "${BUFFER}" }, retries: { max: 1, on: ["${STATUS}"] } }]
"""


def test_the_field_decides_the_type(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY)
    model = load(path, variables={"NAME": "8", "PORT": "81", "BUFFER": "false", "STATUS": "503"}).model
    assert (model.name, model.listeners["web"].port) == ("8", 81)
    assert model.routes[0].buffering is not None
    assert model.routes[0].buffering.request is False
    assert model.routes[0].retries is not None
    assert 503 in model.routes[0].retries.on


@pytest.mark.parametrize(
    ("port", "code"), [("hunter2", "LB105"), ("99999", "LB104"), ("yes", "LB105"), ("", "LB105"), ("8\n0", "LB105")]
)
def test_findings_do_not_show_what_a_variable_holds(tmp_path: Path, port: str, code: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY)
    with pytest.raises(lbgen.LbgenError) as raised:
        load(path, variables={"NAME": "x", "PORT": port, "BUFFER": "true", "STATUS": "503"})
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line) == (code, 4)
    assert not port or port not in str(raised.value)


def test_a_missing_variable_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY)
    with pytest.raises(lbgen.LbgenError) as raised:
        load(path, variables={"PORT": "81"})
    found = raised.value.diagnostics
    assert [(each.code, each.span.line, each.field) for each in found] == [
        ("LB132", 3, "name"),
        ("LB132", 6, "routes[0].buffering.request"),
        ("LB132", 6, "routes[0].retries.on[0]"),
    ]


def test_a_mapping_is_taken_as_it_stands() -> None:
    body = "${A} $$"
    route = {"name": "all", "respond": {"status": 200, "body": body}}
    topology = load({"version": 1, "name": "x", "listeners": {"web": {"port": 80}}, "routes": [route]})
    assert topology.model.routes[0].respond is not None
    assert topology.model.routes[0].respond.body == body
