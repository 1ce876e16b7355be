"""One round of load: its shape, what a generator counted, and how a generator runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lbgen.diagnostics import Diagnostic, EngineError

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class LoadShape:
    """How requests are sent. `rate`: requests per second that are due by a clock; None: a closed loop, in which each
    connection sends its next request after the answer. `connections`: open at a time, at most where there is a rate.
    `keep_alive`: connections stay open; else each has one request. `streams`: HTTP/2 with so many requests at a time on
    each connection; 0: HTTP/1.1."""

    connections: int
    rate: int | None = None
    keep_alive: bool = True
    streams: int = 0

    @property
    def title(self) -> str:
        """`50 connections, closed loop`."""
        loop = "closed loop" if self.rate is None else f"{self.rate} requests/s at a constant rate"
        new = "" if self.keep_alive else ", a new connection for each request"
        http2 = f" of {self.streams} HTTP/2 streams" if self.streams else ""
        return f"{self.connections} connections{http2}, {loop}{new}"


@dataclass(frozen=True, slots=True)
class Load:
    """What a generator counted: times in milliseconds. `errors`: connections that failed and requests without an
    answer in time; `refused`: answers that are neither 2xx nor 3xx; `busy`: share of a core that the generator used,
    where it measures that."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    refused: int
    p95_ms: float | None = None
    p999_ms: float | None = None
    busy: float | None = None


def generator_version(executable: str, option: str) -> str:
    """`wrk 4.1.0`, or `h2load nghttp2/1.52.0`, as the executable says it with that option."""
    done = subprocess.run([executable, option], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    return " ".join(done.stdout.split()[:2]) or executable.rpartition("/")[2]


def run_generator(command: list[str], seconds: float, look: Callable[[], None]) -> str:
    """Run one round and return its output; `look` is called several times a second meanwhile. The generator ends with
    this call, whatever happens.

    Raises EngineError LB430 when it fails, or takes 20 s longer than `seconds`."""
    name = command[0].rpartition("/")[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as process:  # noqa: S603
        try:
            end = time.monotonic() + seconds + _GRACE_SECONDS
            while process.poll() is None:
                if time.monotonic() > end:
                    raise EngineError(Diagnostic("LB430", f"{name} did not end {_GRACE_SECONDS:g} s after its time"))
                look()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_SECONDS)  # its output fits the pipe
            output = process.stdout.read() if process.stdout is not None else ""
        finally:
            process.kill()  # no effect once it has ended
    if process.returncode:
        said = output.strip()[-300:]
        raise EngineError(Diagnostic("LB430", f"{name} failed (exit status {process.returncode}): {said}"))
    return output
