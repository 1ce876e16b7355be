"""`python -m tests.bench.costs`: measures what each feature costs, and writes lbgen/engines/<engine>/costs.json.

A topology that forwards and does nothing else runs beside the same with one feature more, some features at a time, and
each is asked in turn: forward, f1, f2, f3, forward, f4 ... All get the same requests, with what some features match.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.engines.costs import FILE
from tests.bench import load
from tests.bench.cases import WARM_UP_SECONDS, Bench
from tests.bench.measure import quartiles
from tests.bench.proxies import (
    ENGINES,
    LBGEN_PORT,
    BenchError,
    endpoint_binary,
    find_builds,
    isolate,
    plan_of,
    render_proxy,
    running,
    write_certificate,
)

if TYPE_CHECKING:
    from tests.bench.proxies import Build, Proxy

AT_A_TIME = 7  # features beside one base, so that all of a round are of the same half minute
_TARGET, _HOST = "/api/orders/42?beta=1", "shop.example"
_HEADERS = (
    ("X-Canary", "true"),
    ("Cookie", "theme=dark; plan=gold; seen=1"),
    ("Origin", "https://shop.example"),
    ("Accept-Encoding", "gzip"),
)
BASE: dict[str, Any] = {
    "version": 1,
    "name": "bench",
    "profile": "minimal",
    "listeners": {"web": {"port": LBGEN_PORT}},
    "pools": {"api": {"endpoints": [{"address": "127.0.0.1:9000"}, {"address": "127.0.0.2:9000"}]}},
    "routes": [{"name": "all", "match": [{"path": {"prefix": "/api"}}], "forward": "api"}],
}


# What each feature changes in the base, by place: the topology itself, its listener, route, match and pool.
FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "access_log": {"top": {"access_log": "json"}},
    "forwarded_headers": {"top": {"forwarded_headers": True}},
    "request_id": {"top": {"request_id": True}},
    "listener.tls": {"web": {"http2": False, "tls": {"certificates": [{"cert": "cert.pem", "key": "key.pem"}]}}},
    "listener.access": {"web": {"access": {"allow": ["127.0.0.0/8"]}}},
    "listener.limits": {"web": {"limits": {"headers": "16KiB", "target": "8KiB"}}},
    "match.path.exact": {"match": {"path": {"exact": "/api/orders/42"}}},
    "match.path.regex": {"match": {"path": {"regex": "/api/orders/[0-9]+"}}},
    "match.methods": {"match": {"methods": ["GET", "HEAD"]}},
    "match.headers": {"match": {"headers": {"x-canary": "true"}}},
    "match.headers.regex": {"match": {"headers": {"x-canary": {"regex": "(true|yes)"}}}},
    "match.query": {"match": {"query": {"beta": "1"}}},
    "match.cookies": {"match": {"cookies": {"plan": "gold"}}},
    "route.request_headers.set": {"route": {"request_headers": {"set": {"x-env": "prod"}}}},
    "route.response_headers.set": {"route": {"response_headers": {"set": {"cache-control": "no-store"}}}},
    "route.forward.split": {"route": {"forward": [{"pool": "api", "weight": 95}, {"pool": "other", "weight": 5}]}},
    "route.rewrite.prefix": {"route": {"rewrite": {"prefix": "/v2"}}},
    "route.mirror": {"route": {"mirror": {"pool": "other", "percent": 100}}},
    "route.cors": {"route": {"cors": {"origins": ["https://shop.example"]}}},
    "route.compression": {"route": {"compression": {"types": ["application/json"]}}},
    "route.buffering": {"route": {"buffering": {"request": False, "response": False}}},
    "route.rate_limit": {"route": {"rate_limit": {"rate": "1000000/s", "burst": 1000000, "key": "client_ip"}}},
    "route.concurrency": {"route": {"concurrency": {"max": 1000, "key": "route"}}},
    "route.max_body": {"route": {"max_body": "1MiB"}},
    "route.access": {"route": {"access": {"allow": ["127.0.0.0/8"]}}},
    "timeouts.request": {"route": {"timeouts": {"request": "30s"}}},
    "route.retries": {"route": {"retries": {"max": 1, "on": ["connect_failure", "reset", 503]}}},
    "pool.balance.least_connections": {"pool": {"balance": "least_connections"}},
    "pool.balance.random": {"pool": {"balance": "random"}},
    "pool.balance.source_hash": {"pool": {"balance": "source_hash"}},
    "pool.balance.hash": {"pool": {"balance": {"hash": {"header": "x-canary"}}}},
    "pool.sticky": {"pool": {"sticky": {"cookie": "LB"}}},
    "pool.health.passive": {"pool": {"health": {"passive": {"failures": 5, "eject_for": "10s"}}}},
    "pool.connections.max_per_endpoint": {"pool": {"connections": {"max_per_endpoint": 1000}}},
}


def topology_with(feature: str) -> dict[str, Any]:
    """The base with that feature, "" = without any."""
    made = copy.deepcopy(BASE)
    made["pools"]["other"] = copy.deepcopy(made["pools"]["api"])
    route = made["routes"][0]
    # A second route, so that the other pool is used and a match that misses has somewhere to go.
    made["routes"].append({"name": "rest", "forward": "other"})
    places = {
        "top": made,
        "web": made["listeners"]["web"],
        "route": route,
        "match": route["match"][0],
        "pool": made["pools"]["api"],
    }
    for place, change in FEATURES.get(feature, {}).items():
        places[place].update(copy.deepcopy(change))
    return made


def measure_build(build: Build, bench: Bench, names: tuple[str, ...]) -> dict[str, Any]:
    """The record of one build."""
    bases, found = _measure(build, bench, names)
    return {
        "version": build.binary.version,
        "date": datetime.now(UTC).date().isoformat(),
        "method": f"median of {bench.rounds} rounds of {bench.seconds} s in turn with forwarding alone: one worker, "
        f"{load.CONNECTIONS} connections, answers of 5 KB; lbgen {lbgen.__version__}",
        "forward_us": round(statistics.median(bases), 2),
        "features": found,
    }


def _measure(build: Build, bench: Bench, names: tuple[str, ...]) -> tuple[list[float], dict[str, Any]]:
    """What forwarding alone takes, by round, and the figures of the features."""
    bases: list[float] = []
    found: dict[str, Any] = {}
    refused: dict[str, str] = {}
    proxies: list[tuple[str, Proxy]] = []
    certificates = bench.place("certificates")
    certificates.mkdir()
    write_certificate(certificates)

    def render(name: str, number: int) -> Proxy:
        plan = plan_of(topology_with(name), build, LBGEN_PORT + number, certificates)
        return render_proxy(name or "forward", plan, build, bench.place(f"{name or 'forward'}-{build.engine}"))

    for number, name in enumerate(names, 1):
        try:
            proxies.append((name, render(name, number)))
        except LbgenError as error:
            refused[name] = error.diagnostics[0].message
    base = render("", 0)
    for first in range(0, len(proxies), AT_A_TIME):
        batch = proxies[first : first + AT_A_TIME]
        with bench.turn():
            figures = _ask_in_turn([("", base), *batch], bench, refused)
        forward = figures.pop("")
        bases += forward
        for name, micros in figures.items():
            more = [ours - plain for ours, plain in zip(micros, forward, strict=True)]
            low, high = quartiles(more)
            found[name] = {"us": round(statistics.median(more), 2), "low": round(low, 2), "high": round(high, 2)}
            bench.report(f"{build.label}: {name} {found[name]['us']:+.1f} us ({low:.1f} to {high:.1f})")
    for name, why in refused.items():
        bench.report(f"{build.label}: {name}: {why}")
    return bases, dict(sorted(found.items()))


def _ask_in_turn(batch: list[tuple[str, Proxy]], bench: Bench, refused: dict[str, str]) -> dict[str, list[float]]:
    """CPU microseconds per request by name and round; what fails moves to `refused`."""
    figures: dict[str, list[float]] = {}
    with ExitStack() as stack:
        started = {}
        for name, proxy in batch:
            try:
                one = stack.enter_context(running(proxy))
                load.wait_until_serving(one, _HOST, _TARGET)
                load.ask(one, WARM_UP_SECONDS, _HOST, _TARGET, _HEADERS)
            except (BenchError, LbgenError) as error:
                if not name:
                    raise
                refused[name] = str(error)
                continue
            started[name] = one
        middle = (len(started) + 1) // 2
        for _ in range(bench.rounds):
            order = [*list(started)[:middle], "", *list(started)[middle:]]  # forwarding twice: all are held against it
            micros = [(name, load.ask(started[name], bench.seconds, _HOST, _TARGET, _HEADERS)) for name in order]
            for name in started:
                figures.setdefault(name, []).append(statistics.mean(x for each, x in micros if each == name))
    return figures


def main() -> int:
    """Measure, and write what each engine's builds cost."""
    about = argparse.ArgumentParser("python -m tests.bench.costs", description=(__doc__ or "").partition(": ")[2])
    about.add_argument("--engine", action="append", choices=ENGINES, help="default: all four")
    about.add_argument("--feature", action="append", choices=sorted(FEATURES), help="print these; write nothing")
    about.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    about.add_argument("--seconds", type=int, default=1, help="of a round (default: %(default)s)")
    about.add_argument("--lock", type=Path, metavar="FILE", help="take turns with other benches that lock it")
    asked = about.parse_args()
    isolate()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="lbgen-costs-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(folder, asked.rounds, asked.seconds, asked.lock)
        bench.report = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
        with load.endpoint(endpoint_binary(), folder / "endpoint"):
            for engine in asked.engine or ENGINES:
                names = tuple(asked.feature or FEATURES)
                builds = [measure_build(build, bench, names) for build in find_builds((engine,), {})]
                if not asked.feature:
                    target = Path(lbgen.__file__).parent / "engines" / engine / FILE
                    target.write_text(json.dumps({"builds": builds}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
