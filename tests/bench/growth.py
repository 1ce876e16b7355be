"""How the time of every command grows with the routes: `python -m tests.bench.growth [COUNT ...]`; a report, no test.

Each cell is one run of the command in a process of its own: seconds of the wall clock, or with --cpu those that the
command's own processes computed (not what engines and the supervisor of a stack did). The last columns are the growth
for twice the routes, as a mean over all counts, and the largest between two of them. A command that took longer than
--seconds is stopped and not run with more routes; what was not measured is listed with the reason. Stacks run as local
processes on ports of 127.0.0.1 that are free; run it in a network of its own (`unshare -n`) to leave the host's alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2
from pathlib import Path

from tests.support.engine_lists import L7_ENGINES
from tests.support.growth import topology

COUNTS = (250, 500, 1000, 2000, 4000, 8000, 10_000)
NAME = "growth"
_DIFFERS = 4  # exit code of a diff that finds something
_START_SECONDS = 0.5  # of Python and its modules: below it the routes do not show


@dataclass
class Cell:
    """Seconds of a run, or why there is no figure."""

    wall: float = 0.0
    cpu: float = 0.0
    missing: str = ""


@dataclass
class Bench:
    """All cells, by command and count."""

    seconds: float
    cells: dict[str, dict[int, Cell]] = field(default_factory=dict)

    def run(self, name: str, count: int, *argv: str, fine: tuple[int, ...] = (0,)) -> bool:
        """One cell; whether the command ended as it should."""
        row = self.cells.setdefault(name, {})
        late = [before for before, cell in row.items() if cell.missing]
        if late:
            row[count] = Cell(missing=f"not run: {late[0]} routes failed or took too long")
            return False
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "lbgen", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            _, said = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # what up or reload had begun is taken back
            process.communicate()
            row[count] = Cell(missing=f"over {self.seconds:g} s")
            return False
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row[count] = Cell(time.monotonic() - begun, cpu)
        if process.returncode not in fine:
            last = said.strip().splitlines()[-1:] or ["nothing"]
            row[count] = Cell(missing=f"exit {process.returncode}: {last[0][:200]}")
            return False
        return True

    def growth(self, name: str, *, cpu: bool) -> tuple[float, float] | None:
        """For twice the routes: the mean, and the largest of two neighbours; None with fewer than two figures."""
        row = sorted((n, cell.cpu if cpu else cell.wall) for n, cell in self.cells[name].items() if not cell.missing)
        row = [(n, max(seconds, _START_SECONDS)) for n, seconds in row]
        if len(row) < 2:
            return None
        steps = [(b / a) ** (1 / log2(m / n)) for (n, a), (m, b) in pairwise(row)]
        (first, least), (last, most) = row[0], row[-1]
        return (most / least) ** (1 / log2(last / first)), max(steps)

    def record(self, *, cpu: bool) -> list[dict[str, object]]:
        """The JSON record, a row per command."""
        return [
            {
                "command": name,
                "seconds": {str(n): None if x.missing else round(x.wall, 2) for n, x in row.items()},
                "cpu_seconds": {str(n): None if x.missing else round(x.cpu, 2) for n, x in row.items()},
                "growth": None if (found := self.growth(name, cpu=cpu)) is None else [round(x, 2) for x in found],
                "missing": {str(n): x.missing for n, x in row.items() if x.missing},
            }
            for name, row in self.cells.items()
        ]

    def table(self, counts: list[int], *, cpu: bool) -> str:
        """For people."""
        width = max(len(name) for name in self.cells)
        head = "".join(f"{n:>9}" for n in counts)
        lines = [f"{'seconds of CPU' if cpu else 'seconds':<{width}}{head}   mean x2  worst x2"]
        for name, row in self.cells.items():
            cells = ""
            for n in counts:
                cell = row.get(n)
                cells += f"{'-' if cell is None or cell.missing else format(cell.cpu if cpu else cell.wall, '.1f'):>9}"
            found = self.growth(name, cpu=cpu)
            lines.append(
                f"{name:<{width}}{cells}" + ("" if found is None else f"   {found[0]:>7.2f}  {found[1]:>8.2f}")
            )
        missing = [f"{name}, {n} routes: {x.missing}" for name, row in self.cells.items() for n, x in row.items()
                   if x.missing]  # fmt: skip
        return "\n".join([*lines, *(["", "not measured:", *missing] if missing else [])])


def measure(bench: Bench, count: int, engines: list[str], commands: list[str] | None, port: int) -> None:
    """All commands on `count` routes."""

    def wanted(command: str) -> bool:
        return commands is None or command in commands

    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "one.yaml"), Path(folder, "other.yaml")
        for path, changed in ((one, False), (other, True)):
            path.write_text(topology(count, changed=changed, port=port), encoding="utf-8")
        first, second = str(one), str(other)
        if wanted("schema"):
            bench.run("schema", count, "schema")
        if wanted("check"):
            bench.run("check --no-engines", count, "check", first, "--no-engines")
        if wanted("explain"):
            bench.run("explain", count, "explain", first)
        if wanted("route"):
            bench.run("route", count, "route", first, "GET", f"http://h1.example.com:{port}/s1", "--json")
        if wanted("diff"):
            bench.run("diff", count, "diff", first, second, fine=(_DIFFERS,))
        for name in engines:
            if wanted("check"):
                bench.run(f"check -e {name}", count, "check", first, "-e", name, "--accept", "all")
            if wanted("render"):
                bench.run(f"render -e {name}", count, "render", first, "-e", name, "--accept", "all", "-o", folder)
            if wanted("up"):
                _stack(bench, count, name, (first, second))
            if wanted("verify"):
                bench.run(
                    f"verify -e {name}",
                    count,
                    "verify",
                    first,
                    "-e",
                    name,
                    "--accept",
                    "all",
                    "--requests",
                    "50",
                    "--faults",
                    "2",
                )


def _stack(bench: Bench, count: int, name: str, files: tuple[str, str]) -> None:
    local = ("-e", name, "--runtime", "local", "--accept", "all")
    if not bench.run(f"up -e {name}", count, "up", files[0], *local):
        return
    bench.run(f"reload, {name}", count, "reload", files[1])
    bench.run(f"ps, {name}", count, "ps", NAME)
    bench.run(f"stats, {name}", count, "stats", NAME)
    bench.run(f"logs, {name}", count, "logs", NAME)
    if not bench.run(f"down, {name}", count, "down", NAME):
        subprocess.run([sys.executable, "-m", "lbgen", "down", NAME], check=False, capture_output=True)


def main() -> None:
    """Measure and print."""
    about = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    about.add_argument("counts", type=int, nargs="*", default=list(COUNTS), metavar="COUNT")
    about.add_argument("-e", "--engine", action="append", choices=L7_ENGINES)
    about.add_argument(
        "-c", "--command", action="append", help="check, render, explain, route, diff, up, verify, schema"
    )
    about.add_argument("--seconds", type=float, default=120, help="the most for one run (default: %(default)s)")
    about.add_argument("--cpu", action="store_true", help="print seconds of CPU")
    about.add_argument("--json", action="store_true")
    asked = about.parse_args()
    bench = Bench(asked.seconds)
    with tempfile.TemporaryDirectory() as state, socket.socket() as spare:
        os.environ["LBGEN_STATE_DIR"] = state
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]
        spare.close()
        for count in asked.counts:
            sys.stderr.write(f"{count} routes\n")
            measure(bench, count, asked.engine or list(L7_ENGINES), asked.command, port)
    if asked.json:
        print(json.dumps(bench.record(cpu=asked.cpu), indent=2))  # noqa: T201
    else:
        print(bench.table(asked.counts, cpu=asked.cpu))  # noqa: T201


if __name__ == "__main__":
    main()
