"""`-` is standard input: for a topology or for variables, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lbgen.cli.main import group

TEXT = """\
version: 1
name: shop
listeners: { web: { port: "${PORT}" } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] } }
routes: [{ name: all, forward: app }]
"""


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(group, words, input=stdin)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(TEXT, encoding="utf-8")
    Path("other.yaml").write_text(TEXT.replace("shop", "other"), encoding="utf-8")
    return "shop.yaml"


def test_variables_come_from_standard_input(shop: str) -> None:
    done = run("render", shop, "--env-file", "-", "-e", "haproxy", "-o", "-", stdin="PORT=8086\n")
    assert done.exit_code == 0, done.output
    assert ":8086" in done.output


def test_several_topologies_get_the_same_variables(shop: str) -> None:
    done = run("check", shop, "other.yaml", "--env-file", "-", "--no-engines", stdin="PORT=8086\n")
    assert done.exit_code == 0, done.output


def test_a_wrong_line_names_standard_input(shop: str) -> None:
    done = run("check", shop, "--env-file", "-", "--no-engines", stdin="PORT=8086\nno variable\n")
    assert done.exit_code == 1
    assert "<stdin>:2:1: error LB135" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ("check", "-", "--env-file", "-"),
        ("check", "-", "-"),
        ("check", "-", "-f", "-"),
        ("config", "-", "-f", "-"),
        ("render", "-", "--env-file", "-"),
        ("diff", "-", "-"),
    ],
)
def test_it_is_read_only_once(words: tuple[str, ...]) -> None:
    done = run(*words, stdin=TEXT)
    assert done.exit_code == 2
    assert "standard input, which can be read only once" in done.output
