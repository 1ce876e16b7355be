"""h2load of nghttp2: a closed loop over HTTP/2, in which each stream of a connection sends its next request after the
answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.bench.constant_rate import percentiles
from lbgen.bench.load import Load, LoadShape
from lbgen.diagnostics import Diagnostic, EngineError

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

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
