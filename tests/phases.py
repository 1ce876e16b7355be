"""Run all tests in phases, as many at a time as each bears; a test that fails is run once more, alone.

`python tests/phases.py [pytest arguments]`. The phases run side by side. Tests whose result is a time or a cost have
the CPUs first, one at a time. Tests that serve take the longest, so they are next; those of containers and those that
compute take what they leave while they wait.
Lines of a phase begin with its mark. A test that fails alone too fails the run. One that passes only alone is "late
beside others": it is counted and named at the end. The last line is `N passed, N failed, N skipped` over all phases;
the exit code is 1 when a test failed, a phase is broken, or no test ran at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

CPUS = len(os.sched_getaffinity(0))
WAITING = int(os.environ.get("LBGEN_TEST_WORKERS", str(4 * CPUS)))  # at a time of those that wait much of the time
FAILED, NOTHING = 1, 5  # exit codes of pytest: some tests failed, there was none
BRIEF = ("--tb=line", "-rsE")  # of what fails at first; the second look tells all


@dataclass(frozen=True)
class Phase:
    name: str
    tests: str  # an expression of marks (tests/conftest.py sets them)
    mark: str  # of its tests; files without one are not read
    workers: int  # 0: one test at a time
    network: str = "own"  # of each worker: one of its own, where that can be, or the host's
    may_be_empty: bool = False
    nice: int = 0


PHASES = (
    Phase(
        "tests that compute",
        "not measures and not serves and not clients and not containers and not alone",
        "computes",
        min(CPUS, WAITING),
        nice=10,
    ),
    # Only root may go before others; elsewhere they are as those that serve, or alone.
    Phase("tests that measure", "measures", "measures", 1, may_be_empty=True, nice=-15),
    Phase("tests that serve", "serves", "serves", WAITING),
    # One worker starts every engine, database and compiled client once; their tests are short.
    Phase("tests of real clients", "clients", "clients", 1),
    # All share one daemon, and the ports of this host.
    Phase(
        "tests of containers and packages",
        "containers",
        "containers",
        min(WAITING, 2 * CPUS, 4),
        network="host",
        nice=5,
    ),
    # What takes all CPUs and measures; where there are no networks all that serves on fixed ports too.
    Phase("tests that need the machine for themselves", "alone", "alone", 0, may_be_empty=True),
)


@dataclass(frozen=True)
class Result:
    phase: Phase
    seconds: float
    late: list[str]  # failed beside others, passed alone
    failed: list[str]
    run: int = 0  # tests that ran or were skipped
    skipped: int = 0
    broken: str = ""  # why nothing can be said of the tests


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


def pytest(phase: Phase, cache: str, *arguments: str, label: str = "") -> int:
    """Run pytest on the tests of a phase; each line of its output has the label in front."""
    argv = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-m", phase.tests, *arguments]
    if phase.may_be_empty:
        # "N deselected" as the last words of a run reads as "no test ran", to people and to machines.
        look = subprocess.run([*argv, "--collect-only"], capture_output=True, text=True, check=False)
        if look.returncode == NOTHING:
            print("none here", flush=True)
            return NOTHING
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


def look(phase: Phase, cache: str, arguments: list[str]) -> FirstLook:
    """Run a phase with its workers."""
    begun = time.monotonic()
    spread = ["-n", str(phase.workers), "--maxschedchunk", "1"] if phase.workers else []
    Path(cache).mkdir()
    report = Path(cache) / "report.xml"
    label = f"{phase.mark:10} | " if phase.workers else ""
    code = pytest(phase, cache, f"--junitxml={report}", *BRIEF, *spread, *arguments, label=label)
    return FirstLook(phase, time.monotonic() - begun, cache, code, failures(cache), *counts(report))


def judge(first: FirstLook, arguments: list[str]) -> Result:
    """Run what failed once more, one test at a time."""
    begun = time.monotonic()
    phase, code = first.phase, first.code
    last: list[str] = []
    nothing = code == NOTHING and (bool(arguments) or phase.may_be_empty)
    broken = "" if code in (0, FAILED) or nothing else f"pytest ended with {code}"
    if code == FAILED and first.failed:
        print(f"== {phase.name}: {len(first.failed)} once more, one at a time:", *first.failed, sep="\n  ", flush=True)
        code = pytest(phase, first.cache, "--last-failed", "--last-failed-no-failures=none", *arguments)
        last = failures(first.cache)
        broken = "" if code == (FAILED if last else 0) else f"the second look ended with {code}"
    elif code == FAILED:
        broken = "pytest failed and names no test"
    late = [] if broken else [x for x in first.failed if x not in last]
    failed = [x for x in first.failed if x not in late] + [x for x in last if x not in first.failed]
    seconds = first.seconds + time.monotonic() - begun
    return Result(phase, seconds, late, failed, first.tests, first.skipped, broken)


def run(arguments: list[str]) -> list[Result]:
    """The phases with workers side by side, then those of one test at a time; at last all that failed, alone."""
    beside = [phase for phase in PHASES if phase.workers]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(PHASES)) as pool:

        def begin(phase: Phase) -> FirstLook:
            print(f"== {phase.name}", flush=True)
            return look(phase, f"{folder}/{phase.mark}", arguments)

        found = list(pool.map(begin, beside)) + [begin(phase) for phase in PHASES if not phase.workers]
        return [judge(each, arguments) for each in found]


def main() -> int:
    results = run(sys.argv[1:])
    print("\n== summary")
    for result in results:
        late = f", {len(result.late)} passed only when tried again alone" if result.late else ""
        failed = f", {len(result.failed)} failed" if result.failed else ""
        print(f"{result.phase.name}: {result.seconds / 60:.1f} min{late}{failed} {result.broken}".rstrip())
        for title, names in (("late beside others", result.late), ("failed", result.failed)):
            for name in names:
                print(f"  {title}: {name}")
    failed = sum(len(result.failed) for result in results)
    skipped = sum(result.skipped for result in results)
    passed = sum(result.run for result in results) - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed <= 0 or any(result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
