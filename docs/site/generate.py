"""Keep what docs/ and README.md quote true: `python docs/site/generate.py`, part of `make docs`.

A block between `<!-- begin NAME -->` and `<!-- end NAME -->` is what `BLOCKS[NAME]` returns. In a fenced block
`console` the lines below each `$ command` are its output, run in an empty folder that holds the page's blocks with
`title="FILE"` and the folder examples/. The matrix of docs/conformance.md is written by `make matrix`. `--check` writes
nothing and names stale pages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

SITE = Path(__file__).resolve().parent
DOCS = SITE.parent
ROOT = DOCS.parent
SCHEMA = ROOT / "lbgen/spec/topology.schema.json"
sys.path[:0] = [str(ROOT), str(SITE)]

import answers  # noqa: E402
import cli  # noqa: E402
import example  # noqa: E402
import findings  # noqa: E402
import habits  # noqa: E402
import matrix  # noqa: E402
import topology  # noqa: E402
import verdicts  # noqa: E402
import versions  # noqa: E402

from lbgen.cli.schema import TOPOLOGY, schema_of  # noqa: E402
from lbgen.engines.aws import ENGINE as AWS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCKS: dict[str, Callable[[], str]] = {
    "answers": answers.answers,
    "aws": lambda: verdicts.verdicts_of(AWS),
    "commands": cli.commands,
    "example": example.example,
    "fields": topology.fields,
    "everywhere": topology.everywhere,
    "findings": findings.findings,
    "habits": habits.habits,
    "totals": matrix.totals,
    "versions": versions.versions,
    "differences": versions.differences,
}
_BLOCK = re.compile(r"(<!-- begin (?P<name>\w+) -->\n).*?(?P<end><!-- end (?P=name) -->)", re.DOTALL)
_FENCE = re.compile(
    r"^```(?P<kind>\w+)(?: +title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


def pages() -> list[Path]:
    """Return README.md, CONTRIBUTING.md and the pages under docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def fences(text: str) -> Iterator[re.Match[str]]:
    """Yield each fenced block: groups `kind`, `title` (may be None) and `text`."""
    return _FENCE.finditer(text)


def current(path: Path) -> str:
    """Return the text that a page should have."""
    text = _BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m['name']]()}\n{m['end']}", path.read_text(encoding="utf-8"))
    if "\n```console\n" not in text:
        return text
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        return _FENCE.sub(lambda m: _run_again(m, Path(folder)), text)


def _run_again(fence: re.Match[str], folder: Path) -> str:
    if fence["title"]:
        (folder / fence["title"]).parent.mkdir(exist_ok=True)
        (folder / fence["title"]).write_text(fence["text"], encoding="utf-8")
    if fence["kind"] != "console":
        return fence[0]
    lines = []
    for command in re.findall(r"^\$ (.*)$", fence["text"], re.MULTILINE):
        lines += [f"$ {command}", *_output(command, folder)]
    return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"


def _output(command: str, folder: Path) -> list[str]:
    """Return the lines that a command line of lbgen prints, standard error included."""
    bin_folder = Path(sys.executable).parent
    env = {
        "COLUMNS": "110",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{bin_folder}:/usr/bin:/bin:/usr/sbin:/sbin",
        "LC_ALL": "C.UTF-8",
    }
    argv = ["bash", "-c", command]
    done = subprocess.run(  # noqa: S603
        argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return [line.rstrip() for line in done.stdout.rstrip().splitlines()]


def topology_schema() -> str:
    """Return the text of the topology's JSON Schema, which the package holds as a file for editors."""
    return json.dumps(schema_of(TOPOLOGY), indent=1) + "\n"


def generated_files() -> dict[Path, str]:
    """Return the files of the package that are generated as a whole, with their text."""
    return {SCHEMA: topology_schema()}


def stale() -> list[str]:
    """Return the files whose generated parts are not what they should be."""
    expected = {path: current(path) for path in pages()} | generated_files()
    found = [path for path, text in expected.items() if not path.is_file() or text != path.read_text(encoding="utf-8")]
    return [str(path.relative_to(ROOT)) for path in found]


def main() -> int:
    """Write all pages, or with `--check` only name the stale ones."""
    if "--check" in sys.argv:
        found = stale()
        sys.stdout.write("".join(f"{name} is stale: run python docs/site/generate.py\n" for name in found))
        return bool(found)
    for path in pages():
        path.write_text(current(path), encoding="utf-8")
    for path, text in generated_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
