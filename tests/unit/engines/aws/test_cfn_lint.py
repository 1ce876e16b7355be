"""cfn-lint, which knows the schema of every resource, finds nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.engines.aws.templates import cases, drawn, everything, expressible, text_of

LINT = shutil.which("cfn-lint", path=str(Path(sys.executable).parent)) or shutil.which("cfn-lint")


@pytest.mark.skipif(LINT is None, reason="cfn-lint is not installed")
def test_cfn_lint_finds_nothing(tmp_path: Path, every: bool) -> None:
    files = []
    for number, plan in enumerate([everything(tmp_path), *expressible(), *cases(), *drawn(50 if every else 10)]):
        path = tmp_path / f"{number}-{plan.name}.yaml"
        path.write_text(text_of(plan), encoding="utf-8")
        files.append(str(path))
    assert LINT is not None
    run = subprocess.run([LINT, *files], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
