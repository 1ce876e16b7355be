"""How rendering grows with the number of routes: `python tests/bench_render.py [COUNT ...]`; a report, not a test.

Seconds of one CLI run (start, YAML, plan, render, write) for all engines that can, and per engine in one process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lbgen
from lbgen.engines.api import engine_names

if TYPE_CHECKING:
    from collections.abc import Callable

PER_HOST = 50


def topology(routes: int) -> str:
    """A topology of `routes` routes over routes/50 hosts and routes/10 pools, with every kind of path."""
    lines = ["version: 1", "name: bench", "listeners: { web: { port: 8080 } }", "pools:"]
    pools = max(1, routes // 10)
    for n in range(pools):
        lines.append(f'  p{n}: {{ endpoints: [{{ address: "10.{n // 65536}.{n // 256 % 256}.{n % 256}:8080" }}] }}')
    lines.append("routes:")
    for n in range(routes):
        path = (
            f"{{ exact: /r{n} }}",
            f"{{ prefix: /r{n}/x }}",
            f"{{ prefix: /r{n} }}",
            f"{{ prefix: /r{n} }}",
            f'{{ regex: "/r{n}/[0-9]+" }}',
        )[n % 5]
        more = (", methods: [GET]", "", ', headers: { x-canary: "true" }', "", "")[n % 5]
        lines.append(
            f"  - {{ name: r{n}, hosts: [h{n // PER_HOST}.example], match: [{{ path: {path}{more} }}], "
            f"forward: p{n % pools} }}"
        )
    lines.append("accept: [all]")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print a table: one line per count."""
    counts = [int(text) for text in sys.argv[1:]] or [100, 1000, 10000]
    names = [name for name in engine_names() if name != "nftables"]
    print("routes   cli s   load s  plan s  " + "  ".join(f"{name:>9}" for name in names))  # noqa: T201
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bench.yaml"
            path.write_text(topology(count), encoding="utf-8")
            whole = _timed(
                lambda path=path, folder=folder: subprocess.run(
                    [sys.executable, "-m", "lbgen", "render", str(path), "-o", f"{folder}/out"],
                    check=True,
                    capture_output=True,
                )
            )
            started = time.perf_counter()
            loaded = lbgen.load(path)
            load = time.perf_counter() - started
            started = time.perf_counter()
            plan = lbgen.plan(loaded)
            planned = time.perf_counter() - started
            each = [_timed(lambda name=name, plan=plan: lbgen.render(plan, engine=name)) for name in names]
        cells = "  ".join(f"{seconds:>9.2f}" for seconds in each)
        print(f"{count:>6}  {whole:>6.2f}  {load:>7.2f} {planned:>7.2f}  {cells}")  # noqa: T201


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
