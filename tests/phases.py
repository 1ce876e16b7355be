"""Run all tests in phases, as many at a time as each bears; a test that fails is run once more, alone.

`python tests/phases.py [pytest arguments]`. The phases run side by side: tests that serve take the longest, and those
that compute, or use containers, take the CPU time that they leave while they wait. Tests whose result is a time or a
cost are drills, and run alone at the end.
Lines of a phase begin with its mark. A test that fails alone too fails the run. One that passes only alone is "late
beside others": it is counted and named at the end. The last line is `N passed, N failed, N skipped` over all phases;
the exit code is 1 when a test failed, a phase is broken, or no test ran at all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from lbgen.runtime.local import network

CPUS = len(os.sched_getaffinity(0))
WAITING = int(os.environ.get("LBGEN_TEST_WORKERS", str(4 * CPUS)))  # at a time of those that wait much of the time
FAILED, NOTHING = 1, 5  # exit codes of pytest: some tests failed, there was none
BRIEF = ("--tb=line", "-rsE")  # of what fails at first; the second look tells all
# Where no worker has a network of its own, the tests of one port share a worker, and no two phases run side by side.
APART = not network.why_unavailable() and shutil.which("ip") is not None


@dataclass(frozen=True)
class Phase:
    mark: str  # of its tests (tests/conftest.py sets it); files without one are not read
    workers: int  # 0: one test at a time, after all others
    network: str = "own"  # of each worker: one of its own, where that can be, or the host's
    nice: int = 0
    dist: str = "load"  # of tests to workers (pytest-xdist): one by one, or by group where they share what is started


PHASES = (
    Phase("computes", min(CPUS, WAITING), nice=10),
    Phase("serves", WAITING),
    Phase("clients", min(CPUS, 2), dist="loadgroup"),  # a worker for each engine: it starts once, its tests are short
    Phase("containers", min(WAITING, 2 * CPUS, 4), network="host", nice=5),  # one daemon, the ports of this host
    Phase("measures", 0),
)


@dataclass(frozen=True)
class FirstLook:
    """What a phase found when its tests ran beside others. `cache` is where pytest remembers those that failed."""

    phase: Phase
    seconds: float
    cache: str
    code: int
    failed: list[str]
    tests: int
    skipped: int


@dataclass(frozen=True)
class Result:
    first: FirstLook
    late: list[str]  # failed beside others, passed alone
    failed: list[str]
    broken: str = ""  # why nothing can be said of the tests


def pytest(phase: Phase, cache: str, *arguments: str, label: str = "") -> int:
    """Run pytest on the tests of a phase; each line of its output has the label in front."""
    argv = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-m", phase.mark, *arguments]
    # Compiled modules are kept: every process that a test starts would compile ours anew.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, "LBGEN_TEST_NETWORK": phase.network, "LBGEN_TEST_PHASE": phase.mark}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, running.pid, os.getpriority(os.PRIO_PROCESS, 0) + phase.nice)
        assert running.stdout is not None
        for line in running.stdout:
            print(f"{label}{line}", end="", flush=True)
    return running.returncode


def failures(cache: str) -> list[str]:
    file = Path(cache) / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def counts(report: Path) -> tuple[int, int]:
    """Return (tests, skipped ones among them) of a JUnit report; (0, 0) when pytest wrote none."""
    if not report.exists():
        return 0, 0
    suites = ElementTree.parse(report).iter("testsuite")  # noqa: S314  # our own pytest wrote it
    found = [(int(suite.get("tests", 0)), int(suite.get("skipped", 0))) for suite in suites]
    return sum(tests for tests, _ in found), sum(skipped for _, skipped in found)


def look(phase: Phase, folder: str, arguments: list[str]) -> FirstLook:
    """Run a phase with its workers."""
    print(f"== tests: {phase.mark}", flush=True)
    begun, cache = time.monotonic(), f"{folder}/{phase.mark}"
    dist = ("--dist", phase.dist if APART else "loadgroup", "--maxschedchunk", "1")
    spread = ["-n", str(phase.workers), *dist] if phase.workers else []
    Path(cache).mkdir()
    report = Path(cache) / "report.xml"
    code = pytest(phase, cache, f"--junitxml={report}", *BRIEF, *spread, *arguments, label=f"{phase.mark:10} | ")
    return FirstLook(phase, time.monotonic() - begun, cache, code, failures(cache), *counts(report))


def judge(first: FirstLook, arguments: list[str]) -> Result:
    """Run what failed once more, one test at a time."""
    if first.code != FAILED:
        nothing = first.code == NOTHING and (bool(arguments) or first.phase.mark == "measures")
        return Result(first, [], [], "" if first.code == 0 or nothing else f"pytest ended with {first.code}")
    if not first.failed:
        return Result(first, [], [], "pytest failed and names no test")
    print(
        f"== {first.phase.mark}: {len(first.failed)} once more, one at a time:", *first.failed, sep="\n  ", flush=True
    )
    code = pytest(first.phase, first.cache, "--last-failed", "--last-failed-no-failures=none", *arguments)
    last = failures(first.cache)
    if code != (FAILED if last else 0):
        return Result(first, [], first.failed, f"the second look ended with {code}")
    return Result(first, [x for x in first.failed if x not in last], last)


def run(arguments: list[str]) -> list[Result]:
    """The phases with workers side by side, then those of one test at a time; at last all that failed, alone."""
    beside = [phase for phase in PHASES if phase.workers]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(PHASES) if APART else 1) as pool:
        found = list(pool.map(lambda phase: look(phase, folder, arguments), beside))
        found += [look(phase, folder, arguments) for phase in PHASES if not phase.workers]
        return [judge(each, arguments) for each in found]


def main() -> int:
    results = run(sys.argv[1:])
    print("\n== summary")
    for result in results:
        late = f", {len(result.late)} passed only when tried again alone" if result.late else ""
        failed = f", {len(result.failed)} failed" if result.failed else ""
        seconds = f"{result.first.seconds / 60:.1f} min"
        print(f"{result.first.phase.mark}: {seconds}{late}{failed} {result.broken}".rstrip())
        for title, names in (("late beside others", result.late), ("failed", result.failed)):
            for name in names:
                print(f"  {title}: {name}")
    failed = sum(len(result.failed) for result in results)
    skipped = sum(result.first.skipped for result in results)
    passed = sum(result.first.tests for result in results) - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed <= 0 or any(result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
