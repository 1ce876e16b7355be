"""What a change of one service among many takes with rules in the kernel: `python -m tests.bench.kernel_reload`.

It needs root, and works in a network namespace of its own. Exit 1 where the change of one service takes `LIMIT`
milliseconds or more, or the agent's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import lbgen
from lbgen.agent.run import load
from lbgen.agent.steering import EngineFiles
from lbgen.engines.agent_spec import FILE, FORMAT, AgentSpec
from lbgen.engines.nftables import ENGINE
from lbgen.runtime.local.network import Network, network

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "kernel-reload"
LIMIT = 100


def topology(count: int, *, changed: bool = False, direct: bool = False) -> dict[str, object]:
    """That many services of three checked endpoints; one of them may have an endpoint less."""
    ends = {n: [{"address": f"10.9.{n // 250}.{n % 250 + 1}:{port}"} for port in (80, 81, 82)] for n in range(count)}
    if changed:
        ends[count // 2].pop()
    checks = {"active": {"interval": "60s"}}
    address = "10.8.0.1" if direct else "0.0.0.0"  # noqa: S104 - in a namespace
    return {
        "version": 1,
        "name": NAME,
        **({"engines": {"nftables": {"forwarding": "direct"}}} if direct else {}),
        "listeners": {f"s{n}": {"port": 20_000 + n, "mode": "l4", "address": address} for n in ends},
        "pools": {f"s{n}": {"endpoints": each, "health": checks} for n, each in ends.items()},
        "routes": [{"name": f"s{n}", "listeners": [f"s{n}"], "forward": f"s{n}"} for n in ends],
    }


class Bench:
    """One namespace, in which the rules are changed to and fro."""

    def __init__(self, count: int, folder: Path, net: Network, *, direct: bool) -> None:
        self.folder, self.net, self.down = folder, net, False
        plans = (lbgen.plan(lbgen.load(topology(count, changed=changed, direct=direct))) for changed in (False, True))
        self.sides = [{file.name: file.text for file in ENGINE.render(plan, "1.0")} for plan in plans]
        self.spec = load(self.write(self.sides[0]) / FILE, AgentSpec, FORMAT)
        self.nft("lbgen.nft")

    def write(self, files: dict[str, str]) -> Path:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder

    def nft(self, name: str) -> float:
        """Milliseconds that loading a file takes."""
        begun = time.perf_counter()
        self.net.run_inside(lambda: subprocess.run(("nft", "-f", name), cwd=self.folder, check=True))
        return (time.perf_counter() - begun) * 1000

    def change(self) -> float:
        """One service's change, in one transaction; the next one goes back."""
        text = ENGINE.change(*self.sides)
        self.sides.reverse()
        self.write({ENGINE.change_file: text})
        return self.nft(ENGINE.change_file)

    def find_change(self) -> float:
        """What differs between the files of both sides."""
        begun = time.perf_counter()
        assert ENGINE.change(*self.sides)
        return (time.perf_counter() - begun) * 1000

    def agent(self) -> float:
        """An endpoint goes down, or comes back: the agent's whole work."""
        files = EngineFiles(self.spec, self.folder, ENGINE, print, resumed=False)
        pool = self.spec.pools[0]
        self.down = not self.down
        begun = time.perf_counter()
        texts = ENGINE.set_weights(self.spec.steering, {pool.name: {pool.targets[0].name: 0 if self.down else 100}})
        self.net.run_inside(lambda: files.replace(texts))
        assert not files.unloaded
        return (time.perf_counter() - begun) * 1000


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--direct", action="store_true", help="direct forwarding, not NAT")
    parser.add_argument("--times", type=int, default=9)
    asked = parser.parse_args()
    with network() as net, tempfile.TemporaryDirectory() as folder:
        bench = Bench(asked.count, Path(folder), net, direct=asked.direct)
        rows: list[tuple[str, Callable[[], float]]] = [
            ("nft -f with all rules", lambda: bench.nft("lbgen.nft")),
            ("what one service's change is (Python)", bench.find_change),
            ("nft -f with one service's change", bench.change),
            ("the agent's change of one endpoint", bench.agent),
        ]
        print(f"{asked.count} services; milliseconds: median, least, most of {asked.times}")  # noqa: T201
        medians = []
        for name, measure in rows:
            found = [measure() for _ in range(asked.times)]
            medians.append(median(found))
            print(f"{name:40} {medians[-1]:7.1f} {min(found):7.1f} {max(found):7.1f}")  # noqa: T201
    _, difference, change, agent = medians
    return 0 if max(difference + change, agent) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
