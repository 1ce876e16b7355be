"""The cases: each takes a build of an engine and gives its figures."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import yaml

from lbgen.bench.report import Spread
from lbgen.diagnostics import LbgenError
from tests.bench import goals, load
from tests.bench.goals import Result
from tests.bench.measure import Paired, measure_pair
from tests.bench.proxies import (
    EXPERT_PORT,
    HERE,
    LBGEN_PORT,
    SHOP,
    BenchError,
    copy_expert,
    count_lines,
    plan_of,
    render_proxy,
    running,
    write_certificate,
)
from tests.support.growth import topology as growth_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lbgen.plan.model import Plan
    from tests.bench.proxies import Build, Proxy

WARM_UP_SECONDS = 1
IDLE_CONNECTIONS = 10_000
_MEMORY_ROUNDS = 3
_MANY, _SCALE, _MOST = 1_000, 2_000, 10_000  # routes
_UP_SECONDS = 400.0


@dataclass
class Bench:
    """How to measure: rounds and their length, where files go, whom to tell of progress."""

    folder: Path
    rounds: int = 5
    seconds: int = 2
    lock: Path | None = None  # benches that share a machine take turns by it
    report: Callable[[str], None] = lambda _: None
    _number: int = field(default=0, repr=False)

    def place(self, name: str) -> Path:
        """A folder that does not exist yet."""
        self._number += 1
        return self.folder / f"{self._number:03d}-{name.replace(' ', '-')}"

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other bench with the same lock measures."""
        if self.lock is None:
            yield
            return
        with self.lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def compare(
        self,
        case: str,
        base: Proxy,
        ours: Proxy,
        *asked: tuple[str, str],
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Paired:
        """CPU microseconds per request of both; `asked` is host and path, of each or of both.

        Each round has new processes, since the ratio of two of them depends on where their memory happens to lie, and
        asks both in turn for a second each, since the machine's speed changes within seconds.
        """
        sides = tuple(zip((base, ours), (asked[0], asked[-1]), strict=True))
        figures = []
        for number in range(self.rounds):
            self.report(f"{case}, {ours.build.label}: round {number + 1} of {self.rounds}")
            with ExitStack() as stack:
                started = [(stack.enter_context(running(proxy)), where) for proxy, where in sides]
                for proxy, where in started:
                    load.wait_until_serving(proxy, *where)
                stack.enter_context(self.turn())
                for proxy, where in started:
                    load.ask(proxy, WARM_UP_SECONDS, *where, headers)
                turns = [[load.ask(proxy, 1, *where, headers) for proxy, where in started] for _ in range(self.seconds)]
                figures.append([fmean(side) for side in zip(*turns, strict=True)])
        of_base, of_ours = zip(*figures, strict=True)
        return Paired(of_base, of_ours)


TOPOLOGIES = HERE / "topologies"
_ANY = ("localhost", "/data.json")
BROWSER = (
    ("Connection", "keep-alive"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("Accept", "application/json, text/plain, */*"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br"),
    ("Cookie", "session_id=38afes7a8; _ga=GA1.2.1287759266"),
    ("Cache-Control", "no-cache"),
    ("Pragma", "no-cache"),
)


def _micros(paired: Paired) -> str:
    return f"{Spread(paired.base).median:.1f} -> {Spread(paired.ours).median:.1f} us"


def _topology(case: str, build: Build, bench: Bench, port: int = LBGEN_PORT) -> Plan:
    base = bench.place("certificates")
    base.mkdir()
    write_certificate(base)
    text = (TOPOLOGIES / f"{case}.yaml").read_text(encoding="utf-8")
    return plan_of(yaml.safe_load(text), build, port, base)


def _against_expert(
    case: str,
    topology: str,
    expert: str,
    build: Build,
    bench: Bench,
    headers: tuple[tuple[str, str], ...] = (),
) -> list[Result]:
    plan = _topology(topology, build, bench)
    ours = render_proxy(f"lbgen {topology}", plan, build, bench.place(f"lbgen-{topology}-{build.engine}"))
    base = copy_expert(expert, plan, build, bench.place(f"expert-{expert}-{build.engine}"))
    paired = bench.compare(case, base, ours, _ANY, headers=headers)
    goal = goals.CPU[case][build.engine]
    return [Result(case, build.label, paired.ratio, goal, spread=paired.spread, detail=_micros(paired))]


def minimal(build: Build, bench: Bench) -> list[Result]:
    """Match and forward, against the hand-tuned minimum."""
    return _against_expert("minimal", "minimal", "minimal", build, bench)


def browser(build: Build, bench: Bench) -> list[Result]:
    """minimal with the header of a browser, whose lines are where checks of single requests cost."""
    return _against_expert("browser", "minimal", "minimal", build, bench, BROWSER)


def production(build: Build, bench: Bench) -> list[Result]:
    """Log, forwarded headers, ids and times, against a hand-tuned configuration with the same."""
    return _against_expert("production", "production", "production", build, bench)


def tls(build: Build, bench: Bench) -> list[Result]:
    """minimal behind TLS 1.3, ECDSA P-256."""
    return _against_expert("tls", "tls-minimal", "tls-minimal", build, bench)


def routes_topology(count: int, shape: str) -> dict[str, object]:
    """`count` routes told apart by path, or by host."""
    names = [f"r{n}" for n in range(count)]
    matches: list[dict[str, object]] = (
        [{"match": [{"path": {"prefix": f"/service-{n}"}}]} for n in range(count)]
        if shape == "paths"
        else [{"hosts": [f"service-{n}.example.com"]} for n in range(count)]
    )
    return {
        "version": 1,
        "name": "bench",
        "profile": "minimal",
        "listeners": {"web": {"port": LBGEN_PORT}},
        "pools": {"api": {"endpoints": [{"address": "127.0.0.1:9000"}]}},
        "routes": [{"name": name, **match, "forward": "api"} for name, match in zip(names, matches, strict=True)],
    }


def routes(build: Build, bench: Bench) -> list[Result]:
    """1,000 routes against one, the last of them asked."""
    results = []
    for shape in ("paths", "hosts"):
        proxies = [
            render_proxy(
                f"{count} {shape}",
                plan_of(routes_topology(count, shape), build, port),
                build,
                bench.place(f"{count}-{shape}-{build.engine}"),
            )
            for count, port in ((1, EXPERT_PORT), (_MANY, LBGEN_PORT))
        ]
        asked = [
            ("localhost", f"/service-{n}") if shape == "paths" else (f"service-{n}.example.com", "/data.json")
            for n in (0, _MANY - 1)
        ]
        paired = bench.compare(f"routes, {shape}", *proxies, *asked)
        name = f"routes, {shape}"
        results.append(
            Result(
                name,
                build.label,
                paired.ratio,
                goals.ROUTES[build.engine],
                spread=paired.spread,
                detail=_micros(paired),
            )
        )
    return results


def idle_memory(build: Build, bench: Bench) -> list[Result]:
    """Memory while 10,000 connections are idle, one answer each behind them."""
    plan = _topology("minimal", build, bench)
    ours = render_proxy("lbgen minimal", plan, build, bench.place(f"lbgen-idle-{build.engine}"))
    base = copy_expert("minimal", plan, build, bench.place(f"expert-idle-{build.engine}"))

    def measure(proxy: Proxy) -> float:
        with running(proxy) as one:
            load.wait_until_serving(one)
            return load.hold_idle(one, count)

    # HAProxy takes two descriptors for a connection; some are for other things.
    share = 0.48 if build.engine == "haproxy" else 0.96
    count = min(IDLE_CONNECTIONS, int(resource.getrlimit(resource.RLIMIT_NOFILE)[1] * share))
    rounds = min(bench.rounds, _MEMORY_ROUNDS)
    paired = measure_pair(
        lambda: measure(base), lambda: measure(ours), rounds, lambda: bench.report(f"idle-memory, {build.label}")
    )
    detail = f"{Spread(paired.base).median:.0f} -> {Spread(paired.ours).median:.0f} MiB, {count:,} connections"
    return [Result("idle-memory", build.label, paired.ratio, goals.IDLE_MEMORY, spread=paired.spread, detail=detail)]


def lines(build: Build, bench: Bench) -> list[Result]:
    """Lines of configuration of the shop; code beside it is counted apart."""
    text = yaml.safe_load(SHOP.read_text(encoding="utf-8"))
    by_hand, _ = count_lines(HERE / "expert" / build.engine / "shop")
    goal = goals.LINES[build.engine]
    try:
        proxy = render_proxy("shop", plan_of(text, build), build, bench.place(f"shop-{build.engine}"))
    except LbgenError as stopped:
        return [Result("lines", build.label, None, goal, "lines", missing=_first_line(stopped))]
    config, code = count_lines(proxy.folder)
    detail = f"{by_hand} by hand" + (f", {code} of code beside them" if code else "")
    return [Result("lines", build.label, config, goal, "lines", detail=detail)]


def scale(build: Build, bench: Bench) -> list[Result]:
    """nginx's memory and lines with 2,000 routes; every engine starts with 10,000 and routes each of them right."""
    results = []
    if build.engine == "nginx":
        plan = plan_of(yaml.safe_load(growth_topology(_SCALE)), build)
        proxy = render_proxy(f"{_SCALE} routes", plan, build, bench.place("scale-nginx"))
        with running(proxy) as one:
            load.wait_until_bound(one)
            memory = one.largest_process()
        results += [
            Result("scale, memory", build.label, memory, goals.SCALE_MIB, "MiB", detail=f"{_SCALE} routes"),
            Result("scale, lines", build.label, count_lines(proxy.folder)[0], goals.SCALE_LINES, "lines"),
        ]
    bench.report(f"scale, {build.label}: {_MOST} routes")
    return [*results, _start_many(build, bench)]


def _start_many(build: Build, bench: Bench) -> Result:
    """`lbgen up` asks every route, with stand-ins for the endpoints, before it returns."""
    folder = bench.place(f"many-{build.engine}")
    folder.mkdir()
    topology = folder / "many.yaml"
    topology.write_text(growth_topology(_MOST, port=LBGEN_PORT), encoding="utf-8")
    with tempfile.TemporaryDirectory() as state:
        variable = f"LBGEN_{build.engine.upper()}"
        env = {**os.environ, "LBGEN_STATE_DIR": state, variable: str(build.binary.path)}
        argv = [sys.executable, "-m", "lbgen"]
        up = [*argv, "up", str(topology), "-e", build.engine, "--runtime", "local", "--accept", "all"]
        try:
            done = subprocess.run(up, env=env, capture_output=True, text=True, timeout=_UP_SECONDS, check=False)
            failed = _tail(done.stderr or done.stdout) if done.returncode else ""
        except subprocess.TimeoutExpired:
            failed = f"not up after {_UP_SECONDS:g} s"
        down = subprocess.run([*argv, "down", "growth"], env=env, capture_output=True, text=True, check=False)
        if not failed and down.returncode:
            failed = _tail(down.stderr)
    wrong = None if failed else 0.0
    return Result("scale, 10,000 routes", build.label, wrong, 0, "wrong", detail="every route is asked", missing=failed)


def _tail(text: str) -> str:
    return (text.strip().splitlines() or ["it failed"])[-1][:200]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


CASES: dict[str, Callable[[Build, Bench], list[Result]]] = {
    "minimal": minimal,
    "browser": browser,
    "production": production,
    "tls": tls,
    "routes": routes,
    "idle-memory": idle_memory,
    "lines": lines,
    "scale": scale,
}


def run(case: str, build: Build, bench: Bench) -> list[Result]:
    """The figures of a case, or one that says why there is none."""
    try:
        return CASES[case](build, bench)
    except (LbgenError, BenchError, OSError, subprocess.SubprocessError) as error:
        by_engine = {**goals.CPU, "routes": goals.ROUTES}.get(case, {})
        goal = by_engine.get(build.engine, goals.IDLE_MEMORY if case == "idle-memory" else 0)
        return [Result(case, build.label, None, goal, missing=_first_line(error))]
