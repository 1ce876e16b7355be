"""Choose and run the generator for the shape of a load: wrk for the closed loop, h2load for that over HTTP/2, lbgen's
own at a constant rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lbgen.bench import constant_rate
from lbgen.bench.h2load import find_h2load, h2load_command, read_h2load
from lbgen.bench.load import Load, LoadShape, generator_version, run_generator
from lbgen.bench.wrk import find_wrk, read_wrk, wrk_command
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

_LOG = "requests.log"
CONSTANT_RATE = f"lbgen {VERSION} (lbgen/bench/constant_rate.py)"


@dataclass(frozen=True, slots=True)
class Generators:
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
