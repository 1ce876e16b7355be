"""The second look of tests/phases.py: late beside others is told and passes, failed alone too is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PHASES = Path(__file__).parents[1] / "phases.py"
# Only the phase of these tests, and the one of those that run alone, of which there are none: most of the time is the
# start of the others.
TWO_PHASES = """
import sys, phases
phases.PHASES = tuple(x for x in phases.PHASES if x.mark in ("computes", "measures"))
sys.exit(phases.main())
"""
MARKED = "import os, pytest\npytestmark = pytest.mark.computes\n"
BESIDE_OTHERS = "def test_late(): assert 'PYTEST_XDIST_WORKER' not in os.environ\ndef test_good(): pass\n"


def phases(folder: Path, text: str) -> tuple[int, list[str]]:
    (folder / "test_it.py").write_text(MARKED + text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    computes\n    measures\n", encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    # Workers of phases without tests, and plugins that nothing uses, are most of the time.
    env |= {"LBGEN_TEST_WORKERS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    env["PYTHONPATH"] = str(PHASES.parent)
    argv = [sys.executable, "-c", TWO_PHASES, "test_it.py"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.partition("== summary\n")[2].splitlines()


def test_failed_twice_is_failed(tmp_path):
    code, told = phases(tmp_path, BESIDE_OTHERS + "def test_wrong(): assert False\n")
    assert code == 1
    assert told[1:3] == ["  late beside others: test_it.py::test_late", "  failed: test_it.py::test_wrong"]
    assert told[-1] == "2 passed, 1 failed, 0 skipped"


def test_what_cannot_be_collected_fails(tmp_path):
    code, told = phases(tmp_path, "import not_there_at_all\n")
    assert code == 1
    assert told


def test_skipped_tests_are_counted_and_a_run_of_them_alone_fails(tmp_path):
    code, told = phases(tmp_path, "def test_left_out(): pytest.skip('no reason')\n")
    assert (code, told[-1]) == (1, "0 passed, 0 failed, 1 skipped")
