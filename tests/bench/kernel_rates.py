"""Rates of kernel forwarding (NAT and direct) beside those of every engine of layer 4; needs root, wrk, ip and nft.

python -m tests.bench.kernel_rates

One topology, interleaved rounds, with kept connections and with a new connection for each request. CPU per request is
that of everything that works for it: client, endpoint, engine, and the kernel's interrupts in their time, from the
processes' own clocks; so it is only right on a kernel without CONFIG_IRQ_TIME_ACCOUNTING. Prints one JSON object; by
shape the rates, CPU, and the median ratio to the fastest user-space engine of the same round. Exit 1 where NAT is
slower than that, or direct less than 1.2 times as fast.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
from typing import TYPE_CHECKING, Any

import lbgen
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import Generators, LoadShape
from lbgen.bench.report import DIRECT
from lbgen.bench.rounds import group_cpu, run_round
from lbgen.bench.subjects import Unit, running
from lbgen.bench.target import choose_target

if TYPE_CHECKING:
    from lbgen.bench.subjects import Subject

NAT, FORWARDED = "nftables, nat", "nftables, direct"
LEAST = {NAT: 1.0, FORWARDED: 1.2}
USER_SPACE = ("haproxy", "nginx", "envoy", "traefik")
SHAPES = {"kept connections": LoadShape(50), "new connections": LoadShape(50, keep_alive=False)}
TOPOLOGY = {
    "version": 1,
    "name": "rates",
    "profile": "minimal",
    "listeners": {"web": {"port": 8080, "mode": "l4", "address": "192.0.2.10"}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
    "routes": [{"name": "all", "listeners": ["web"], "forward": "app"}],
}


def units() -> list[Unit]:
    """Every engine of layer 4, and the kernel in both ways."""
    found = []
    for name, engines, forwarding in (
        ("", USER_SPACE, "nat"),
        (NAT, ("nftables",), "nat"),
        (FORWARDED, ("nftables",), "direct"),
    ):
        settings: dict[str, Any] = {"engines": {"nftables": {"forwarding": forwarding}}} if name else {}
        plan = lbgen.plan(lbgen.load({**TOPOLOGY, **settings}))
        good, left = verified_engines(plan, engines, ("all",), 20, lambda event: None, kernel=True)
        for each in left:
            sys.stderr.write(f"{each.engine}: {each.reasons[0].message}\n")
        found += [Unit(name or choice.name, choice, plan, choose_target(plan, None, "web")) for choice, _ in good]
    return found


def measure(generators: Generators, subject: Subject, shape: LoadShape, seconds: int) -> tuple[float, float]:
    """Requests per second, and CPU microseconds of a request."""

    def used() -> float:
        client = resource.getrusage(resource.RUSAGE_CHILDREN)
        return client.ru_utime + client.ru_stime + group_cpu([*subject.leaders(), subject.answering or 0])

    before = used()
    load = run_round(generators, subject, shape, seconds).load
    if load.errors or load.refused:
        sys.stderr.write(f"{subject.name}: {load.errors} errors, {load.refused} not 2xx\n")
    return load.per_second, (used() - before) * 1e6 / load.requests


def main() -> int:
    about = argparse.ArgumentParser("python -m tests.bench.kernel_rates")
    about.add_argument("--rounds", type=int, default=7)
    about.add_argument("--seconds", type=int, default=1)
    about.add_argument("--bytes", type=int, default=512, help="of an answer (default: %(default)s)")
    asked = about.parse_args()
    generators, said, good = Generators.find(), {}, True
    with running(units(), ("all",), body_bytes=asked.bytes) as (subjects, failed):
        if failed:
            raise SystemExit(f"not started: {failed}")
        for title, shape in SHAPES.items():
            for each in subjects:
                measure(generators, each, shape, 1)
            rounds = [
                {each.name: measure(generators, each, shape, asked.seconds) for each in subjects}
                for _ in range(asked.rounds)
            ]
            figures = {
                each.name: {
                    "requests/s": [round(x[each.name][0]) for x in rounds],
                    "CPU us": round(statistics.median(x[each.name][1] for x in rounds), 1),
                }
                for each in subjects
            }
            base = figures[DIRECT]["CPU us"]
            for name, row in figures.items():
                row["CPU us added"] = None if name == DIRECT else round(row["CPU us"] - base, 1)
            others = [x.name for x in subjects if x.name in USER_SPACE]
            ratios = {
                name: sorted(round(x[name][0] / max(x[other][0] for other in others), 2) for x in rounds)
                for name in LEAST
            }
            said[title] = {**figures, "ratio to the fastest": ratios}
            good = good and all(statistics.median(ratios[name]) >= least for name, least in LEAST.items())
    print(json.dumps({"load": os.getloadavg()[0], **said}, indent=1))  # noqa: T201
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
