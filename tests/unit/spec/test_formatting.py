"""The canonical form of YAML: one text in, one text out."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.diagnostics import LbgenError
from lbgen.spec.formatting import LONGEST, format_yaml
from lbgen.spec.starter import starters

ROOT = Path(__file__).parents[3]
CASES = {
    "spaces": ("a:   {b:   1,c: [ 2,3 ] }\n", "a: { b: 1, c: [2, 3] }\n"),
    "empty collections": ("a: { }\nb: [ ]\n", "a: {}\nb: []\n"),
    "a mapping of one key in a list": ("a: [{b: 1}, c: 2]\n", "a: [{ b: 1 }, { c: 2 }]\n"),
    "list items": ("a:\n- 1\n-   b: 2\n    c: 3\n", "a:\n  - 1\n  - b: 2\n    c: 3\n"),
    "indentation": ("a:\n      b:\n          c: 1\n", "a:\n  b:\n    c: 1\n"),
    "quotes": ("a: 'x'\nb: 'say \"x\"'\nc: \"x\"\n", 'a: "x"\nb: \'say "x"\'\nc: "x"\n'),
    "a comment at the end of a line": ("a: 1 # one\nbb:   # two\n  c: 1\n", "a: 1  # one\nbb:  # two\n  c: 1\n"),
    "comments in line": ("a: 1     # one\nb: 22    # two\n", "a: 1     # one\nb: 22    # two\n"),
    "a comment below": ("a:\n    - 1\n    # below 1\nb: 2\n", "a:\n  - 1\n  # below 1\nb: 2\n"),
    "a comment above": ("a:\n    - 1\n# above b\nb: 2\n", "a:\n  - 1\n# above b\nb: 2\n"),
    "a comment of a flow": ("a:\n  { b: 1 }  # of a\nc: 1\n", "a: { b: 1 }  # of a\nc: 1\n"),
    "empty lines": ("\n\na: 1\n\n\n\nb: 2\n\n\n", "a: 1\n\nb: 2\n"),
    "several lines of one value": ("a: one\n   two\n", "a: one two\n"),
    "literal blocks": ("a: |\n     # no comment\n\n\n     x\nb: 1\n", "a: |\n  # no comment\n\n\n  x\nb: 1\n"),
    "blocks that keep their end": ("a: |+ # why\n  x\n\nb: 1\n", "a: |+  # why\n  x\n\nb: 1\n"),
    "anchors": ("a: &base {b: 1}\nc:\n  <<: *base\n", "a: &base { b: 1 }\nc:\n  <<: *base\n"),
    "variables": ('a: "${A:-x}"\nb: ${B}\n', 'a: "${A:-x}"\nb: ${B}\n'),
    "words of YAML 1.1": ("a: on\nb: 022\nc: 1_000\nd: 22:22\n", "a: on\nb: 022\nc: 1_000\nd: 22:22\n"),
    "line ends and a BOM": ("\ufeffa: 1\r\nb: 2\r\n", "a: 1\nb: 2\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_canonical_form(case: str) -> None:
    written, canonical = CASES[case]
    assert format_yaml(written.encode(), "x.yaml") == canonical
    assert format_yaml(canonical.encode(), "x.yaml") == canonical


def test_a_collection_that_is_too_long_for_a_line_is_a_block() -> None:
    hosts = [f"host-{number}.example" for number in range(9)]
    short, long = ", ".join(hosts[:3]), ", ".join(hosts)
    text = format_yaml(f"a: {{ b: [{long}], c: [{short}] }}\nd: [{short}]\n".encode(), "x.yaml")
    items = "".join(f"    - {host}\n" for host in hosts)
    assert text == f"a:\n  b:\n{items}  c: [{short}]\nd: [{short}]\n"
    assert format_yaml(f"a: [{short}]  # {'long ' * LONGEST}\n".encode(), "x.yaml").count("\n") == 1


def test_a_comment_that_has_no_place_is_refused_with_its_place() -> None:
    with pytest.raises(LbgenError) as raised:
        format_yaml(b"a: 1\nb: [\n  x,  # why\n  y ]\n", "x.yaml")
    [found] = raised.value.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("LB136", 3, 7)


def test_what_would_not_mean_the_same_is_refused() -> None:
    with pytest.raises(LbgenError) as raised:
        format_yaml(b"a: !!str 1\n", "x.yaml")
    assert raised.value.diagnostics[0].code == "LB136"


def test_examples_and_starters_are_canonical() -> None:
    files = [*ROOT.glob("examples/*/topology.yaml"), *ROOT.glob("lbgen/spec/starters/*.yaml")]
    assert len(files) >= 7 + len(starters())
    for path in files:
        raw = path.read_bytes()
        assert format_yaml(raw, str(path)).encode() == raw, path


def test_files_are_written_only_where_they_change(tmp_path: Path) -> None:
    run = CliRunner()
    wrong, right, link = (tmp_path / name for name in ("wrong.yaml", "right.yaml", "link.yaml"))
    wrong.write_text("a:   1\n")
    wrong.chmod(0o640)
    right.write_text("a: 1\n")
    link.symlink_to(wrong)
    before = right.stat().st_mtime_ns
    files = [str(link), str(right)]
    checked = run.invoke(group, ["fmt", "--check", *files])
    assert (checked.exit_code, wrong.read_text()) == (1, "a:   1\n")
    assert "would reformat" in checked.stderr
    assert "1 file would be reformatted, 1 file already" in checked.stderr
    shown = run.invoke(group, ["fmt", "--diff", *files])
    assert (shown.exit_code, wrong.read_text()) == (1, "a:   1\n")
    assert "-a:   1\n+a: 1\n" in shown.stdout
    written = run.invoke(group, ["fmt", *files])
    assert (written.exit_code, wrong.read_text(), right.stat().st_mtime_ns) == (0, "a: 1\n", before)
    assert link.is_symlink()
    assert wrong.stat().st_mode & 0o777 == 0o640
    assert run.invoke(group, ["fmt", "--check", *files]).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "right.yaml", "wrong.yaml"]


def test_standard_input_is_printed() -> None:
    done = CliRunner().invoke(group, ["fmt", "-"], input="a:   1\n")
    assert (done.exit_code, done.stdout) == (0, "a: 1\n")
    checked = CliRunner().invoke(group, ["fmt", "--check", "-"], input="a:   1\n")
    assert (checked.exit_code, checked.stdout) == (1, "")


def test_what_cannot_be_read_is_a_finding_and_the_others_are_formatted(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [\n")
    (tmp_path / "good.yaml").write_text("a:   1\n")
    done = CliRunner().invoke(group, ["fmt", str(tmp_path / "bad.yaml"), str(tmp_path / "good.yaml")])
    assert done.exit_code == 1
    assert "LB100" in done.stderr
    assert (tmp_path / "good.yaml").read_text() == "a: 1\n"
