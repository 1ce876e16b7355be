"""Proxies that lbgen does not configure, as subjects of a benchmark: examples/bench/comparators."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING

from lbgen.bench.subjects import Subject, wait_serving
from lbgen.conformance.free_ports import FreePorts
from lbgen.records import replace
from lbgen.runtime.local.run_as import User
from lbgen.runtime.local.spawn import spawn, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.runtime.local.spawn import Process

FOLDER = Path(__file__).parents[2] / "examples" / "bench" / "comparators"


@dataclass
class Comparator:
    """What a subject asks of its process."""

    process: Process
    agent: None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def ensure_alive(self) -> None:
        assert self.process.poll() is None


def build(name: str, folder: Path) -> tuple[str, str] | None:
    """The executable and the version of its toolchain; None where that is not installed."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if name != "go" or go is None:
        return None
    program = str(folder / name)
    subprocess.run([go, "build", "-o", program, "."], cwd=FOLDER / name, check=True, timeout=300)
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, timeout=30).stdout
    return program, version.strip()


@contextmanager
def run(name: str, program: str, folder: Path, whole: Subject, endpoints: Sequence[str]) -> Iterator[Subject]:
    """The comparator before these endpoints, with the request of `whole`."""
    port = FreePorts(avoid={whole.port}).take()
    argv = [program, "-listen", f"127.0.0.1:{port}", "-endpoints", ",".join(endpoints)]
    process = spawn(argv, user=User(), directory=folder, output=sys.stderr)
    try:
        wait_serving(name, ("127.0.0.1", port), whole.target, Comparator(process))
        yield replace(whole, name=name, port=port, process=Comparator(process), address="127.0.0.1", kernel=False)
    finally:
        stop(process, SIGTERM, 2.0)
