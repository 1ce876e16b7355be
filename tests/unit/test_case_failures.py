"""One line of pytest's names the cases that failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lbgen.conformance.runner import CaseState, Result
from tests.support.case_failures import failures

FAIL, PASS = CaseState.FAIL, CaseState.PASS
RESULTS = [
    Result("nginx 1.31.3", "4-paths", f"4.paths.{n}", "4.paths", PASS if n == 1 else FAIL, "status:\n404" + "x" * 200)
    for n in range(8)
]
TEST = """
from tests.unit.test_case_failures import RESULTS
from tests.support.case_failures import failures
def test_it():
    failed = failures(RESULTS)
    assert not failed, failed
"""


def test_the_first_line_has_file_engine_cases_and_difference() -> None:
    first, *rest = failures(RESULTS).splitlines()
    assert first.startswith("7 of 8 cases of 4-paths on nginx 1.31.3 fail: 4.paths.0 (status: 404xxx")
    assert "4.paths.1 " not in first
    assert first.endswith("…); 2 more")
    assert sum(line.startswith("4.paths.") for line in rest) == 7
    assert failures(RESULTS[1:2]) == ""


def test_pytest_prints_it_where_it_prints_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(TEST)
    words = (
        "-m",
        "pytest",
        "--tb=line",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "test_x.py",
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(root)}
    )
    assert "cases of 4-paths on nginx 1.31.3 fail: 4.paths.0 (status: 404" in done.stdout, done.stdout + done.stderr
