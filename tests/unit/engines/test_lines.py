"""Lines end at line feeds alone: what else Unicode calls a line break is part of free text."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

import lbgen
from lbgen.cli.explain import explain_command as explain
from lbgen.conformance.verify.edited_files import user_edits, with_verified_times
from lbgen.engines.api import split_lines
from lbgen.engines.text import split_origins

BREAKS = ("\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e", "\r")


def topology(text: str) -> dict[str, object]:
    return {
        "version": 1,
        "name": "lines",
        "profile": "minimal",
        "listeners": {"web": {"port": 8080}},
        "routes": [{"name": "all", "respond": {"status": 200, "body": text}}],
    }


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\n\nb", "\n", "a\n\n"])
def test_like_splitlines_where_only_line_feeds_are(text: str) -> None:
    assert split_lines(text) == text.splitlines()


@pytest.mark.parametrize("character", BREAKS)
def test_nothing_else_ends_a_line(character: str) -> None:
    assert split_lines(f"a{character}b\nc") == [f"a{character}b", "c"]
    text, origins = split_origins("\x02!http\x03\nend\n", {"http": ("engines.x.http", f"# a{character}b\nc;")})
    assert text == f"# a{character}b\nc;\nend\n"
    assert origins == ("engines.x.http", "engines.x.http", "")


@pytest.mark.parametrize("character", ["\u2028", "\u2029"])
@pytest.mark.parametrize("name", ["nginx", "envoy", "traefik"])
def test_every_line_keeps_its_origin(name: str, character: str) -> None:
    rendered = lbgen.render(lbgen.load(topology(f"a{character}b")), engine=name, accept=("all",))
    for file in rendered.files:
        assert not file.origins or len(file.origins) == len(split_lines(file.text))
    assert user_edits(rendered, rendered) == ()
    slower = rendered.with_files(replace(x, text=x.text.replace("60", "61")) for x in rendered.files)
    assert [x.text for x in with_verified_times(rendered, rendered, slower).files] == [x.text for x in slower.files]


def test_explain_counts_lines_as_an_editor_does(tmp_path: object) -> None:
    rendered = lbgen.render(lbgen.load(topology("a\u2028b")), engine="nginx", accept=("all",))
    last = len(rendered["nginx.conf"].split("\n")) - 1
    file = f"{tmp_path}/topology.yaml"
    with open(file, "w", encoding="utf-8") as out:  # noqa: PTH123
        yaml.safe_dump(topology("a\u2028b"), out)
    result = CliRunner().invoke(explain, [file, "-e", "nginx", "--line", f"nginx.conf:{last}"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(explain, [file, "-e", "nginx", "--line", f"nginx.conf:{last + 1}"])
    assert f"has {last} lines" in result.output
