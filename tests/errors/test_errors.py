"""Bad topologies and the exact findings they get: tests/errors/<CODE>-<what>.yaml beside .txt.

`pytest tests/errors --update-golden` rewrites the .txt files; the diff is then read like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.codes import CODES
from lbgen.diagnostics import LbgenError
from lbgen.plan import resolve
from lbgen.spec.load import load

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in HERE.glob("LB*.yaml"))


def findings(file: str) -> str:
    """What `lbgen check` says about a file, one line each; advice included."""
    try:
        return "".join(f"{d}\n" for d in resolve.findings(load(file), files=True))
    except LbgenError as error:
        return "".join(f"{d}\n" for d in error.diagnostics)


@pytest.mark.parametrize("case", CASES)
def test_findings(case: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    code = case.partition("-")[0]
    said = findings(f"{case}.yaml")
    expected = HERE / f"{case}.txt"
    if update_golden:
        expected.write_text(said, encoding="utf-8")
    assert code in said
    assert expected.is_file(), "no expected findings; run with --update-golden and read them"
    assert said == expected.read_text(encoding="utf-8")


def test_every_code_has_a_case() -> None:
    wanted = {code for code in CODES if code.startswith(("LB1", "LB2"))}
    wanted -= {
        "LB135",
        "LB136",
    }  # of the command line: tests/unit/spec/test_layering.py, test_variables.py, test_formatting.py
    assert wanted <= {case.partition("-")[0] for case in CASES}


def test_no_stale_findings() -> None:
    assert {path.stem for path in HERE.glob("LB*.txt")} == set(CASES)
