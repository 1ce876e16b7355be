"""wrk, the generator of the closed loop: each connection sends its next request after the answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lbgen.bench.load import Load, LoadShape
from lbgen.diagnostics import Diagnostic, EngineError

_CONNECT = Path(__file__).with_name("connect.lua")
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


def find_wrk() -> str:
    """The executable. Raises EngineError LB430 where there is none."""
    found = shutil.which("wrk")
    if found is None:
        hint = "install it: apt-get install wrk, brew install wrk"
        raise EngineError(Diagnostic("LB430", "no executable of wrk, the load generator, is in PATH", hint=hint))
    return found


def wrk_command(wrk: str, url: str, headers: tuple[tuple[str, str], ...], shape: LoadShape, seconds: int) -> list[str]:
    """The command line of one round: one thread. Of an https URL the host is the name that TLS asks for; connections go
    to 127.0.0.1."""
    script = ["-s", str(_CONNECT)] if url.startswith("https:") else []
    if not shape.keep_alive:
        headers = (*headers, ("Connection", "close"))
    lines = [word for name, value in headers for word in ("-H", f"{name}: {value}")]
    return [wrk, "-t1", f"-c{shape.connections}", f"-d{seconds}s", "--latency", *script, *lines, url]


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
    found = re.search(rf"^\s+{which}\s+([\d.]+)(us|ms|s|m|h) *$", output, re.MULTILINE)
    if found is None:
        raise EngineError(Diagnostic("LB430", f"wrk printed no {which} percentile: {output.strip()[-300:]}"))
    return float(found[1]) * _MS[found[2]]
