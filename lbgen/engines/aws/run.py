"""Checking the template by cfn-lint, which knows the resources and their properties without a connection to AWS."""

from __future__ import annotations

from collections.abc import Mapping

from lbgen.engines.api import Binary, BinaryHint, CheckSpec
from lbgen.engines.aws.build import FILE

CHECKER = BinaryHint("cfn-lint", version_argv=("--version",))
_FOUND = 14  # exit codes of cfn-lint are sums: 2 errors, 4 warnings, 8 informational ones


def check(binary: Binary) -> CheckSpec:
    """`cfn-lint` reads the template and ends; its findings are one line each."""
    return CheckSpec((str(binary.path), "--format", "parseable", FILE), _judge)


def _judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    if code == 0:
        return ()
    lines = tuple(line for line in output.splitlines() if line.strip())
    return lines if lines and not code & ~_FOUND else (f"cfn-lint ended with {code}: {output.strip()[-500:]}",)
