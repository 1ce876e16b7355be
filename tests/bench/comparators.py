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
from zipfile import ZipFile

from msgspec.structs import replace

from lbgen.bench.subjects import Subject, wait_serving
from lbgen.conformance.free_ports import FreePorts
from lbgen.runtime.local.spawn import User, spawn, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.runtime.local.spawn import Process

FOLDER = Path(__file__).parents[2] / "examples" / "bench" / "comparators"
_GATEWAY_JAR = "spring-cloud-gateway-server-webflux-"
_WARM_UP_CONNECTIONS, _WARM_UP_SECONDS = 50, 15


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


def build(name: str, folder: Path) -> tuple[tuple[str, ...], str] | None:
    """The command line without its flags, and the version; None where the toolchain is not installed."""
    return {"go": _build_go, "spring": _build_spring}[name](folder)


def _build_go(folder: Path) -> tuple[tuple[str, ...], str] | None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return None
    program = str(folder / "go")
    subprocess.run([go, "build", "-o", program, "."], cwd=FOLDER / "go", check=True, timeout=300)
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, timeout=30).stdout
    return (program,), version.strip()


def _build_spring(folder: Path) -> tuple[tuple[str, ...], str] | None:
    maven, java = shutil.which("mvn"), shutil.which("java")
    if maven is None or java is None:
        return None
    source = Path(shutil.copytree(FOLDER / "spring", folder / "spring"))
    subprocess.run([maven, "-q", "-B", "package"], cwd=source, check=True, timeout=900)
    jar = source / "target" / "comparator.jar"
    with ZipFile(jar) as archive:
        names = [Path(each).name for each in archive.namelist()]
    gateway = next(each for each in names if each.startswith(_GATEWAY_JAR))
    return (java, "-jar", str(jar)), gateway.removeprefix(_GATEWAY_JAR).removesuffix(".jar")


@contextmanager
def run(name: str, program: Sequence[str], folder: Path, whole: Subject, endpoints: Sequence[str]) -> Iterator[Subject]:
    """The comparator before these endpoints, with the request of `whole`, once it has answered for a while."""
    port = FreePorts(avoid={whole.port}).take()
    argv = [*program, "-listen", f"127.0.0.1:{port}", "-endpoints", ",".join(endpoints)]
    process = spawn(argv, user=User(), directory=folder, output=sys.stderr)
    try:
        wait_serving(name, ("127.0.0.1", port), whole.target, Comparator(process))
        _warm_up(f"http://127.0.0.1:{port}{whole.target.target}")
        yield replace(whole, name=name, port=port, process=Comparator(process), address="127.0.0.1", kernel=False)
    finally:
        stop(process, SIGTERM, 2.0)


def _warm_up(url: str) -> None:
    """Virtual machines compile what runs often: their first thousands of requests say nothing of later ones."""
    if wrk := shutil.which("wrk"):
        load = [wrk, "-t1", f"-c{_WARM_UP_CONNECTIONS}", f"-d{_WARM_UP_SECONDS}s", url]
        subprocess.run(load, check=True, capture_output=True, timeout=60)
