"""README.md, CONTRIBUTING.md and docs/: generated parts are fresh, code blocks run, links and paths lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

import lbgen
from lbgen.cli.main import VERBS, group
from lbgen.plan.features import all_features
from lbgen.spec.load import load_bytes
from tests.support.command import run_lbgen

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "site"))

import generate  # noqa: E402

PAGES = [page.relative_to(ROOT) for page in generate.pages()]
EXAMPLES = sorted(page.relative_to(ROOT) for page in ROOT.glob("examples/*/README.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page: Path, *kinds: str) -> list[re.Match[str]]:
    return [m for m in generate.fences((ROOT / page).read_text(encoding="utf-8")) if m["kind"] in kinds]


def prose(page: Path) -> str:
    """The page without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_generated_parts_are_fresh(page):
    path = ROOT / page
    assert generate.current(path) == path.read_text(encoding="utf-8"), f"{page} is stale: run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_shown_commands_find_their_files(page):
    assert [block["text"] for block in blocks(page, "console") if "error LB110: no such file" in block["text"]] == []


def test_generated_files_of_the_package_are_fresh():
    expected = generate.generated_files()
    assert {path: path.read_text(encoding="utf-8") for path in expected} == expected, "stale: run `make docs`"


def test_the_matrix_comes_from_a_run():
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    block = text.partition("<!-- conformance:begin -->")[2].partition("<!-- conformance:end -->")[0]
    assert "| **all** |" in block, "run make matrix"
    for engine in ("envoy", "haproxy", "nginx", "traefik", "nftables"):
        assert engine in block


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_every_feature_is_in_the_topology_reference():
    text = (DOCS / "topology.md").read_text(encoding="utf-8")
    assert [feature for feature in all_features() if f"| `{feature}` |" not in text] == []


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=str)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(re.sub(r"`[^`]*`", "``", prose(page))):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT)), f"{page}: {link}"


def test_every_page_is_in_the_navigation_of_the_site():
    text = (DOCS / "site/mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in text] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/extending.md", "CONTRIBUTING.md"])
def test_paths_exist(page):
    text = prose(Path(page))
    named = re.findall(r"`((?:lbgen|templates|profiles|tests|examples|docs)(?:/[\w./-]+)?)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
    beside = set(re.findall(r"`([\w/]+\.(?:py|j2))`", text)) - set(named)
    assert [name for name in beside if not [*(ROOT / "lbgen").rglob(name)]] == []


def test_the_architecture_answers_where_to_change_things():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Where do I change X?")[2]
    assert len(re.findall(r"^\| [a-z]", text, re.MULTILINE)) >= 12


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_yaml_blocks_load(page):
    if page.name == "findings.md":
        pytest.skip("its examples are wrong on purpose; tests/unit has what they get")
    for block in blocks(page, "yaml"):
        data = yaml.safe_load(block["text"])
        if isinstance(data, dict) and "version" in data and block["title"] != "wrong.yaml":
            topology = load_bytes(block["text"].encode(), str(page), Path())
            errors = [d for d in lbgen.check(topology) if d.severity == "error"]
            assert errors == []


@pytest.mark.engines
@pytest.mark.xdist_group("runtime")
@pytest.mark.parametrize("number", range(len(blocks(Path("docs/python.md"), "python"))))
def test_python_blocks_run(number, tmp_path, monkeypatch):
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    code = blocks(Path("docs/python.md"), "python")[number]["text"].replace('"out/nginx"', repr(str(tmp_path / "out")))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout or "print(" not in code
    assert (tmp_path / "out/nginx.conf").is_file() or "out/nginx" not in code


def test_python_blocks_are_on_the_page_that_runs_them():
    assert [page for page in PAGES if page.name != "python.md" and blocks(page, "python")] == []


def commands(page: Path) -> list[str]:
    """The lbgen commands that a page shows, in blocks and in the text."""
    shown = [line.removeprefix("$ ") for m in blocks(page, "sh", "console") for line in m["text"].splitlines()]
    parts = [part.strip() for line in shown for part in re.split(r"&&|\||(?<=\s)# ", line)]
    parts += re.findall(r"`(lbgen [^`]*)`", prose(page).replace("\n", " "))
    return [part for part in parts if part.startswith("lbgen ")]


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=str)
def test_commands_and_options_exist(page):
    top = click.Context(group, info_name="lbgen")
    for line in commands(page):
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)[1:]
            if words[0].startswith("-") or not words[0].isalpha() or words[0].isupper():
                continue
            assert words[0] in VERBS, line
            verb = group.get_command(top, words[0])
            known = {name for each in verb.params for name in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
            if isinstance(verb, click.Group):
                known |= {name for each in verb.commands.values() for x in each.params for name in x.opts}
            assert {word for word in words if re.fullmatch(r"--?[a-z-]+", word)} <= known, line


def test_examples_are_listed_and_have_ten_line_readmes():
    for folder in sorted((ROOT / "examples").iterdir()):
        if (folder / "topology.yaml").is_file():
            assert f"[{folder.name}](examples/{folder.name})" in README
            assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) >= 10


@pytest.mark.parametrize("page", EXAMPLES, ids=str)
def test_commands_of_the_example_pages_run(page):
    text = (ROOT / page).read_text(encoding="utf-8").replace("\n", " ")
    for line in re.findall(r"`lbgen ((?:route|render) [^`]*)`", text):
        words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)]
        done = run_lbgen(*words)
        assert done.returncode == 0, (page, line, done.stderr)
