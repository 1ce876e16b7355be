"""Rendered files, byte for byte: tests/golden/<case>/<engine>/<file>; a refusal is kept in refused.txt instead.

`pytest tests/golden --update-golden` rewrites them; the diff is then read like code.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import lbgen
from lbgen import resources
from lbgen.engines import text as templates
from lbgen.engines.api import Deployed, engine, engine_names
from lbgen.plan.model import EngineOptions
from tests.support.plans import examples
from tests.support.views import check_view

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent

# Files that go out as they stand in templates/ are not kept a second time.
STATIC = {p.read_text(encoding="utf-8") for p in resources.folder("templates").rglob("*") if p.is_file()}
# What each field comes to is in `fields`; all of them together nobody reads.
CASES = {name: plan for name, plan in examples().items() if name != "all-fields"}
CASES |= {path.stem: lbgen.plan(lbgen.load(path)) for path in sorted((HERE / "topologies").glob("*.yaml"))}
# Other versions are pinned on one case, the rest on the default one. What renders the same bytes has no folder.
TARGETS = [(case, name, None) for case in CASES for name in engine_names()]
TARGETS += [("shop", name, version) for name in engine_names() for version in engine(name).versions[1:]]


@pytest.fixture(autouse=True)
def _checked_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every view that a case makes holds what a view may hold: only what is printed is checked by `render`."""
    render = templates.render

    def checked(env: Environment, template: str, view: object, *own: templates.Own) -> tuple[str, tuple[str, ...]]:
        check_view(view)
        return render(env, template, view, *own)

    monkeypatch.setattr(templates, "render", checked)


def rendered(case: str, name: str, version: str | None) -> dict[str, str]:
    plan = CASES[case]
    if version is not None:
        plan = replace(plan, engines=((name, EngineOptions(version=version)),))
    try:
        accept = ("all",) if isinstance(engine(name), Deployed) else ()  # of its verdicts most are approximate
        files = lbgen.render(plan, engine=name, accept=accept)
        return {file: text for file, text in files.items() if text not in STATIC}
    except lbgen.LbgenError as stop:
        lines = [f"{d.severity} {d.code} {d.field}: {d.message}; {d.hint}\n" for d in stop.diagnostics]
        return {"refused.txt": "".join(lines)}


def without_version(files: dict[str, str], name: str) -> dict[str, str]:
    """The files without the version of the engine, which comments and refusals name."""
    named = re.compile(rf"\b{engine(name).title} (?:{'|'.join(map(re.escape, engine(name).versions))})\b")
    return {file: named.sub("", text) for file, text in files.items()}


@pytest.mark.parametrize(("case", "name", "version"), TARGETS)
def test_golden(case: str, name: str, version: str | None, update_golden: bool) -> None:
    folder = HERE / case / (f"{name}-{version}" if version else name)
    new = rendered(case, name, version)
    if version is not None and without_version(new, name) == without_version(rendered(case, name, None), name):
        new = {}
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        for file, text in new.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    stored = {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.is_file()}
    assert sorted(stored) == sorted(new), "stale or missing golden files; run make golden and read the diff"
    for file, text in new.items():
        assert text == stored[file], f"{folder.name}/{file} changed; run make golden and read the diff"


def test_rendering_twice_gives_the_same_bytes() -> None:
    for name in engine_names():
        assert rendered("shop", name, None) == rendered("shop", name, None)


def test_no_folder_is_left_of_a_case_that_is_gone() -> None:
    folders = {p.name for p in HERE.iterdir() if p.is_dir() and p.name not in {"fields", "topologies", "__pycache__"}}
    assert folders <= {case.partition("/")[0] for case in CASES}
