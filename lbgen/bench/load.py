"""Rounds of load: their shape, and the generators that send them. wrk has the closed loop, h2load that over HTTP/2, and
lbgen's own program constant rates."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.bench import constant_rate
from lbgen.bench.constant_rate import percentiles
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.json_types import Printed
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.25


class LoadShape(Printed, frozen=True):
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


class Load(Printed, frozen=True):
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


class BenchProgress(Struct, frozen=True):
    """`done` of `total` rounds of load are over, and about `left` seconds of load are to come; while the engines are
    verified `total` is 0."""

    what: str
    done: int = 0
    total: int = 0
    left: float = 0.0


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


_FAILED_STREAM = -1  # in the place of a status
_SKIPPED = {"host", "connection"}  # :authority says the first, and the second is not of HTTP/2


def find_h2load() -> str | None:
    """The executable."""
    return shutil.which("h2load")


def h2load_command(
    h2load: str, shape: LoadShape, target: LoadTarget, place: tuple[str, int], seconds: int, log: Path
) -> list[str]:
    """The command line of one round: one thread; each request is a line of `log`."""
    address, port = place
    host = next((value for name, value in target.headers if name.lower() == "host"), address)
    headers = [(":authority", host), *(x for x in target.headers if x[0].lower() not in _SKIPPED)]
    scheme, name = ("http", address) if target.server_name is None else ("https", target.server_name)
    return [
        h2load,
        "-t1",
        f"-c{shape.connections}",
        f"-m{shape.streams}",
        f"-D{seconds}",
        *(word for each in headers for word in ("-H", ": ".join(each))),
        f"--log-file={log}",
        f"--connect-to={address}:{port}",
        f"{scheme}://{name}:{port}{target.target}",
    ]


def read_h2load(output: str, log: str) -> Load:
    """Read what h2load prints, and its log. Raises EngineError LB430 where there is no answer over HTTP/2.

    The rate is that from the first request to the last answer: h2load opens no new connection for one that an engine
    closes after its limit of requests, and would divide by the whole time. What it had sent there counts as errors."""
    spoken = re.search(r"^Application protocol: (\S+)", output, re.MULTILINE)
    lines = [tuple(map(int, line.split("\t")[:3])) for line in log.splitlines()]
    answered = [(start, status, micros) for start, status, micros in lines if status != _FAILED_STREAM]
    if not answered or spoken is None or not spoken[1].startswith("h2"):
        raise EngineError(Diagnostic("LB430", f"h2load got no answers over HTTP/2: {output.strip()[-300:]}"))
    begin, end = min(each[0] for each in answered), max(start + micros for start, _, micros in answered)
    found = percentiles([micros / 1000 for _, _, micros in answered])
    refused = sum(not 200 <= status < 400 for _, status, _ in answered)
    count = len(answered)
    per_second = count * 1e6 / max(1, end - begin)
    return Load(count, per_second, found["50"], found["99"], len(lines) - count, refused, found["95"], found["99.9"])


_LOG = "requests.log"
CONSTANT_RATE = f"lbgen {VERSION} (lbgen/bench/constant_rate.py)"


class Generators(Struct, frozen=True):
    """The executables, and their versions as they say them; `h2load` None where there is none."""

    wrk: str
    wrk_version: str
    h2load: str | None = None
    h2load_version: str = ""

    @staticmethod
    def find() -> Generators:
        """Those in PATH. Raises EngineError LB430 without wrk."""
        wrk, h2load = find_wrk(), find_h2load()
        return Generators(
            wrk, generator_version(wrk, "-v"), h2load, "" if h2load is None else generator_version(h2load, "--version")
        )

    def name(self, shape: LoadShape) -> str:
        """The generator of a shape, with its version."""
        if shape.rate is not None:
            return CONSTANT_RATE
        return self.h2load_version if shape.streams else self.wrk_version

    def command(
        self, shape: LoadShape, target: LoadTarget, place: tuple[str, int], seconds: int, log: Path = Path(_LOG)
    ) -> list[str]:
        """The command line of one round at `place`, an address and a port; h2load writes requests to `log`."""
        if shape.rate is not None:
            return constant_rate_command(shape, target, place, seconds)
        if shape.streams and self.h2load is not None:
            return h2load_command(self.h2load, shape, target, place, seconds, log)
        address, port = place
        scheme, host = ("http", address) if target.server_name is None else ("https", target.server_name)
        return wrk_command(self.wrk, f"{scheme}://{host}:{port}{target.target}", target.headers, shape, seconds)

    def run(
        self, shape: LoadShape, target: LoadTarget, place: tuple[str, int], seconds: int, look: Callable[[], None]
    ) -> Load:
        """One round at `place`; `look` is called several times a second meanwhile. Raises EngineError LB430."""
        with TemporaryDirectory(prefix="lbgen-bench-") as folder:
            log = Path(folder) / _LOG
            longest = seconds if shape.rate is None else seconds + constant_rate.DRAIN_SECONDS
            output = run_generator(self.command(shape, target, place, seconds, log), longest, look)
            if shape.rate is not None:
                return read_constant_rate(output)
            if shape.streams:
                return read_h2load(output, log.read_text("ascii") if log.exists() else "")
            return read_wrk(output)


def constant_rate_command(
    shape: LoadShape, target: LoadTarget, place: tuple[str, int], seconds: float, *, each: bool = False
) -> list[str]:
    """The command line of one round at `shape.rate`. `each`: the output has every request."""
    lines = [f"GET {target.target} HTTP/1.1", *(f"{name}: {value}" for name, value in target.headers)]
    if not shape.keep_alive:
        lines.append("Connection: close")
    order = {
        "address": place[0],
        "port": place[1],
        "request": "\r\n".join([*lines, "", ""]),
        "connections": shape.connections,
        "rate": shape.rate,
        "seconds": seconds,
        "keep_alive": shape.keep_alive,
        "server_name": target.server_name,
        "each": each,
    }
    return [sys.executable, "-I", "-S", constant_rate.__file__, json.dumps(order)]


def read_constant_rate(output: str) -> Load:
    """Read what the program prints. Raises EngineError LB430 where there was no answer."""
    try:
        found = constant_rate.Figures(**json.loads(output))
    except (ValueError, TypeError):
        raise EngineError(Diagnostic("LB430", f"the generator printed no figures: {output.strip()[-300:]}")) from None
    if not found.answered:
        raise EngineError(Diagnostic("LB430", f"the generator got no answers: {output.strip()[-300:]}"))
    ms = {name: seconds * 1000 for name, seconds in found.percentiles.items()}
    return Load(
        found.answered,
        found.answered / found.elapsed,
        ms["50"],
        ms["99"],
        found.failed + found.late,
        found.refused,
        ms["95"],
        ms["99.9"],
        found.busy,
    )
