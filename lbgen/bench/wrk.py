"""wrk, the load generator: a closed loop, in which each connection sends its next request after the answer."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from lbgen.diagnostics import Diagnostic, EngineError

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.25
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk counted: times in milliseconds. `errors`: connections that failed and requests without an answer in
    time; `refused`: answers that are neither 2xx nor 3xx."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    refused: int


def find_wrk() -> str:
    """The executable. Raises EngineError LB430 where there is none."""
    found = shutil.which("wrk")
    if found is None:
        hint = "install it: apt-get install wrk, brew install wrk"
        raise EngineError(Diagnostic("LB430", "no executable of wrk, the load generator, is in PATH", hint=hint))
    return found


def wrk_command(wrk: str, url: str, headers: tuple[tuple[str, str], ...], connections: int, seconds: int) -> list[str]:
    """The command line of one round: one thread."""
    lines = [word for name, value in headers for word in ("-H", f"{name}: {value}")]
    return [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *lines, url]


def run_wrk(command: list[str], seconds: int, look: Callable[[], None]) -> Load:
    """Run one round; `look` is called several times a second meanwhile. wrk ends with this call, whatever happens.

    Raises EngineError LB430 when it fails, takes 20 s too long, or gets no answer to count."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as process:  # noqa: S603
        try:
            end = time.monotonic() + seconds + _GRACE_SECONDS
            while process.poll() is None:
                if time.monotonic() > end:
                    raise EngineError(Diagnostic("LB430", f"wrk did not end {_GRACE_SECONDS:g} s after its time"))
                look()
                time.sleep(_LOOK_SECONDS)  # its output fits the pipe
            output = process.stdout.read() if process.stdout is not None else ""
        finally:
            process.kill()  # no effect once it has ended
    if process.returncode:
        raise EngineError(
            Diagnostic("LB430", f"wrk failed (exit status {process.returncode}): {output.strip()[-300:]}")
        )
    return read_wrk(output)


def read_wrk(output: str) -> Load:
    """Read what `wrk --latency` prints. Raises EngineError LB430 where a figure is missing, or no answer."""
    count = re.search(r"^\s*(\d+) requests in", output, re.MULTILINE)
    rate = re.search(r"^Requests/sec:\s+([\d.]+)", output, re.MULTILINE)
    if count is None or rate is None or not int(count[1]):
        raise EngineError(Diagnostic("LB430", f"wrk got no answers: {output.strip()[-300:]}"))
    socket_errors = re.search(r"Socket errors: (.*)", output)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    errors = sum(map(int, re.findall(r"\d+", socket_errors[1]))) if socket_errors else 0
    p50, p99 = (_percentile(output, each) for each in ("50%", "99%"))
    return Load(int(count[1]), float(rate[1]), p50, p99, errors, int(refused[1]) if refused else 0)


def _percentile(output: str, which: str) -> float:
    found = re.search(rf"^\s+{which}\s+([\d.]+)(us|ms|s|m|h)$", output, re.MULTILINE)
    if found is None:
        raise EngineError(Diagnostic("LB430", f"wrk printed no {which} percentile: {output.strip()[-300:]}"))
    return float(found[1]) * _MS[found[2]]
