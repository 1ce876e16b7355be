"""The page of `--html`: what is on it, where its lines lead, and that nothing of a topology leaves its place."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import lbgen
from lbgen.cli.main import group
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.report import Report, UnverifiedEngine
from lbgen.conformance.verify.time_scaling import Scale
from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import engine_names
from lbgen.html.page import build_page, to_html

HOSTILE = "</pre></style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;{{ 7*7 }}{% raw %}"
TEXT = """\
version: 1
name: page
listeners: { web: { port: 8080 } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] } }
routes:
  - name: app
    forward: app
    response_headers: { set: { x-note: kept } }
"""
MARKUP = {"script", "img", "iframe", "object", "link", "base", "form", "svg"}


class Reader(HTMLParser):
    """The elements of a page, their attributes and its texts; fails where elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "wbr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report(*results: Result, **changed: Any) -> Report:
    values = {"name": "page", "left": (), "served": (), "scale": Scale(1.0, ()), "moved_because": "", "seconds": 2.0}
    return Report(results=results, **{**values, **changed})


def page(path: Path, *args: Any, **kwargs: Any) -> Reader:
    return Reader(to_html(build_page(lbgen.load(path), engine_names(), *args, **kwargs)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "page.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_rendered_lines_lead_to_the_lines_of_the_topology_that_explain_names(file: Path) -> None:
    read = page(file)
    ids = {found["id"] for _, found in read.elements if "id" in found}
    links = [(found["href"], found["title"]) for tag, found in read.elements if tag == "a"]
    assert len(links) > 50
    assert {str(href).removeprefix("#") for href, _ in links} <= ids
    assert ("#s0l6", "routes[0]") in links
    done = CliRunner().invoke(group, ["explain", str(file), "-e", "nginx", "--field", "pools.app"])
    places = [line.split(": ", 1)[1] for line in done.output.splitlines()]
    assert places
    assert all(any(text in shown for shown in read.texts) for text in places)


def test_it_has_every_engine_and_needs_nothing_else(file: Path) -> None:
    read = page(file)
    titles = {name.partition(" ")[0] for name in read.texts}
    assert {"Envoy", "HAProxy", "nftables", "nginx", "Traefik"} <= titles
    assert any("does not serve this topology as it stands" in text for text in read.texts)
    assert not MARKUP & {tag for tag, _ in read.elements}
    for tag, found in read.elements:
        assert not {"src", "style", "onclick", "action"} & found.keys(), tag
        assert str(found.get("href", "#")).startswith("#")
    policies = [
        found["content"] for tag, found in read.elements if found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]


QUOTED = "'" + HOSTILE.replace("'", "''") + "'"
CASES = {
    "a value": (TEXT.replace("kept", QUOTED), QUOTED),
    "a condition": (TEXT.replace("    forward", f"    match: [{{ headers: {{ x: {QUOTED} }} }}]\n    forward"), QUOTED),
    "a comment": (f"{TEXT}# {HOSTILE}\n", HOSTILE),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_topology_leaves_its_place(case: str, file: Path, tmp_path: Path) -> None:
    text, written = CASES[case]
    path = tmp_path / "<script>alert(1)<b>'\".yaml"
    path.write_text(text, encoding="utf-8")
    read, usual = page(path), page(file)
    assert {tag for tag, _ in read.elements} <= {tag for tag, _ in usual.elements}
    assert {name for _, found in read.elements for name in found} == {n for _, found in usual.elements for n in found}
    assert written in "".join(read.texts)
    assert "<script>alert(1)<b>" in "".join(read.texts)


def test_differences_are_shown_with_what_shows_them_again(file: Path) -> None:
    curl = f"curl -sS -H 'x: {HOSTILE}' http://127.0.0.1:1/"
    failed = Result("nginx 1.31", "page", "4.x/1", "4.x.y", CaseState.FAIL, f"status 500 {HOSTILE}", curl)
    passed = Result("nginx 1.31", "page", "4.x/2", "4.x.y", CaseState.PASS)
    left = UnverifiedEngine("envoy", (Diagnostic("LB403", f"it ended {HOSTILE}"),), broken=True)
    read = page(file, (), report(failed, passed, left=(left,)), [f"not tried: {HOSTILE}"])
    texts = "".join(read.texts)
    for shown in (
        curl,
        f"status 500 {HOSTILE}",
        f"it ended {HOSTILE}",
        f"not tried: {HOSTILE}",
        "1 difference, 1 engine failed",
    ):
        assert shown in texts
    assert not MARKUP & {tag for tag, _ in read.elements}
    badges = [found["class"] for tag, found in read.elements if str(found.get("class", "")).startswith("badge ")]
    assert badges[0] == "badge red"
    green = page(file, (), report(passed))
    assert "green in 2 s" in "".join(green.texts)
    assert "Differences" not in "".join(green.texts)


def test_a_long_file_is_cut_and_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbgen.html.page.MOST_LINES", 20)
    text = "".join(page(file).texts)
    assert re.search(r"[0-9]+ more lines are left out here; lbgen render prints them", text)


def test_what_was_no_file_has_no_links() -> None:
    made = build_page(lbgen.load(yaml.safe_load(TEXT)), ("nginx",))
    files = {source.name for source in made.sources}
    assert not any("dict" in name for name in files)
    lines = [line for part in made.parts for one in part.engines for each in one.files for line in each.lines]
    assert any(line.field for line in lines)
    assert not any(line.target for line in lines if line.field.startswith("routes"))


def test_explain_writes_it(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = CliRunner().invoke(group, ["explain", str(file), "--html", str(target)])
    assert done.exit_code == 0, done.output
    assert "verdicts" in done.output
    assert f"wrote {target}" in done.output
    Reader(target.read_text(encoding="utf-8"))
    printed = CliRunner().invoke(group, ["explain", str(file), "--html", "-"])
    assert printed.output == target.read_text(encoding="utf-8")
    missing = CliRunner().invoke(group, ["explain", str(file), "--html", str(tmp_path / "no/page.html")])
    assert missing.exit_code == 2
    assert "there is no folder" in missing.output


def test_verify_writes_it_beside_its_table_and_keeps_its_exit_code(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Result(
        "nginx 1.31", "page", "4.x/1", "4.x.y", CaseState.FAIL, "status 500", "curl -sS http://127.0.0.1:1/"
    )
    monkeypatch.setattr(lbgen, "verify", lambda *_args, **_options: report(failed))
    target = tmp_path / "page.html"
    done = CliRunner().invoke(group, ["verify", str(file), "-e", "nginx", "--html", str(target)])
    assert done.exit_code == 4
    assert "1 difference" in done.output
    read = Reader(target.read_text(encoding="utf-8"))
    assert "curl -sS http://127.0.0.1:1/" in read.texts
    assert not any(text.startswith("envoy.yaml") for text in read.texts)
    printed = CliRunner().invoke(group, ["verify", str(file), "-e", "nginx", "--html", "-"])
    assert printed.exit_code == 4
    assert printed.stdout == target.read_text(encoding="utf-8")
