"""The registry of codes: complete, used, and its examples true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lbgen
from lbgen.codes import CODES
from lbgen.diagnostics import LbgenError
from lbgen.plan import resolve
from lbgen.spec.load import load

ROOT = Path(lbgen.__file__).parent
FILES = Path(__file__).parents[1] / "errors"  # certificates and profiles that examples name
BASE = {
    "version": "version: 1",
    "name": "name: shop",
    "listeners": "listeners: { web: { port: 8080 } }",
    "pools": 'pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }] } }',
    "routes": "routes: [{ name: app, forward: app }]",
}
TOPOLOGIES = [code.code for code in CODES.values() if not code.example.startswith("$")]


def test_every_code_in_use_is_registered_and_every_registered_code_is_in_use() -> None:
    files = [path for path in ROOT.rglob("*.py") if path.parent.name != "codes"]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert set(re.findall(r'"(LB[0-9]{3})"', text)) == CODES.keys()
    assert set(re.findall(r"\bLB[0-9]{3}\b", text)) == CODES.keys()


def test_every_entry_is_read() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "codes").glob("*.py")]
    assert sum(len(re.findall(r"^LB[0-9]{3} ", text, re.MULTILINE)) for text in texts) == len(CODES)


@pytest.mark.parametrize("code", TOPOLOGIES)
def test_an_example_gets_its_finding(code: str, tmp_path: Path) -> None:
    example = CODES[code].example
    parts = [text for key, text in BASE.items() if not re.search(rf"^{key}:", example, re.MULTILINE)]
    for path in (FILES / "pair.crt", FILES / "pair.key", FILES / "profiles"):
        (tmp_path / path.name).symlink_to(path)
    file = tmp_path / "topology.yaml"
    file.write_text("\n".join((*parts, example, "")), encoding="utf-8")
    try:
        found = resolve.findings(load(str(file)), files=True)
    except LbgenError as error:
        found = error.diagnostics
    assert code in {finding.code for finding in found}, [str(finding) for finding in found]
