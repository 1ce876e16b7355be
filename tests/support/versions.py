"""All versions of all engines: conformance, random requests, fingerprints, and the examples verified; then a table.

    python -m tests.support.versions                     # make test-versions
    python -m tests.support.versions haproxy@3.2 nginx   # only these

Fetches what tests.support.farm knows. The table counts the cases of conformance by state; `verify` is examples that are
green of those tried. Minutes and CPU are those of a version's tests, of which several run at a time.
LBGEN_RESULTS=FOLDER keeps the files that the table is made of. Exit 1 when a test failed or a version could not be had.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lbgen.conformance.runner import CaseState
from lbgen.engines.api import local_engines, version_key
from tests.support import farm
from tests.support.version_results import CONFORMANCE, DIFFERENTIAL, FINGERPRINT, VERIFY, Outcome, read

TESTS = (
    "tests/conformance/test_conformance.py",
    "tests/conformance/test_safety.py",
    "tests/differential/test_differential.py",
    "tests/engines/test_fingerprints.py",
    "tests/verify/test_versions.py",
    "--drills",
)
REQUESTS = 2_000  # random ones, of each engine
_STATES = (CaseState.PASS, CaseState.FAIL, CaseState.HABIT, CaseState.APPROXIMATE, CaseState.REFUSED, CaseState.SKIPPED)


def fetch(names: Sequence[tuple[str, str]]) -> tuple[list[str], dict[tuple[str, str], str]]:
    """The folders of the versions that could be fetched, and the reasons of the others."""
    folders, missing = [], {}
    for name, version in names:
        try:
            folders.append(str(farm.fetch(name, version).parent))
        except farm.FarmError as error:
            missing[name, version] = str(error)
    return folders, missing


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """A row for each version of which there are outcomes, by engine, oldest first."""
    keys = {(each.engine, each.version) for each in outcomes}
    ordered = sorted(keys, key=lambda key: (key[0], version_key(key[1])))
    return [_row(*key, [x for x in outcomes if (x.engine, x.version) == key]) for key in ordered]


def _row(name: str, version: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    cases: Counter[str] = Counter()
    for each in outcomes:
        if each.kind == CONFORMANCE:
            cases.update(each.counts)
            broken = each.failed and not each.counts.get(CaseState.FAIL)  # it counted nothing
            cases.update({str(CaseState.FAIL): int(broken)})
    return (
        name,
        version,
        *(str(cases[state]) for state in _STATES),
        _verdict(outcomes, DIFFERENTIAL, lambda found: f"{sum(x.counts.get('requests', 0) for x in found)}"),
        _verdict(outcomes, FINGERPRINT, lambda found: "as stored"),
        _verdict(outcomes, VERIFY, lambda found: f"{len(found)} of {len(found)}"),
        f"{sum(x.seconds for x in outcomes) / 60:.1f}",
        f"{sum(x.cpu for x in outcomes) / 60:.1f}",
    )


def _verdict(outcomes: Sequence[Outcome], kind: str, well: Callable[[list[Outcome]], str]) -> str:
    """What `well` says when no outcome of that kind failed; else those that did; "-" when there is none."""
    found = [each for each in outcomes if each.kind == kind]
    failed = [each.test for each in found if each.failed]
    return f"FAIL: {', '.join(failed)}" if failed else well(found) if found else "-"


def table(outcomes: Sequence[Outcome]) -> Table:
    """The table of a run."""
    made = Table(title="Versions")
    for title in (
        "engine",
        "version",
        *map(str, _STATES),
        "random requests",
        "fingerprint",
        "verify",
        "min",
        "CPU min",
    ):
        made.add_column(title, justify="left" if title in ("engine", "verify") else "right")
    for row in rows(outcomes):
        made.add_row(*row)
    return made


def absent(outcomes: Sequence[Outcome]) -> list[str]:
    """Supported versions without a single outcome."""
    known = {(each.engine, each.version) for each in outcomes}
    every = [
        (target.name, version)
        for target in local_engines().values()
        for version in sorted(target.versions, key=version_key)
    ]
    return [f"{name} {version}" for name, version in every if (name, version) not in known]


def main(argv: list[str]) -> int:
    """Fetch, run, and print the table; `argv`: ENGINE or ENGINE@VERSION, all without any."""
    wanted = [each.partition("@")[::2] for each in argv]

    def chosen(name: str, version: str) -> bool:
        return not wanted or any(name == n and v in ("", version) for n, v in wanted)

    sources = [key for key in farm.SOURCES if chosen(*key)]
    folders, missing = fetch(sources)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("LBGEN_RESULTS") or temporary)
        seed = str(secrets.randbelow(1 << 31) + 1)  # one for all workers, and for a test that runs once more
        env = {
            "LBGEN_DIFFERENTIAL": str(REQUESTS),
            "LBGEN_DIFFERENTIAL_SEED": seed,
            **os.environ,
            "LBGEN_RESULTS": str(folder),
            "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")]),
        }
        only = ["-k", " or ".join(f"{n}-{v}" for n, v in wanted)] if wanted else []
        code = subprocess.run([sys.executable, "tests/phases.py", *TESTS, *only], env=env, check=False).returncode
        outcomes = [each for each in read(folder) if chosen(each.engine, each.version)]
    Console(width=max(Console().width, 150)).print(table(outcomes))
    print(f"random requests by seed {env['LBGEN_DIFFERENTIAL_SEED']}; {(time.monotonic() - begun) / 60:.1f} min in all")
    for (name, version), reason in missing.items():
        print(f"{name} {version} could not be fetched: {reason}")
    gone = [] if wanted else absent(outcomes)
    print(f"{len(missing)} of {len(sources)} versions could not be fetched; not tested: {', '.join(gone) or 'none'}")
    return 1 if code or missing or any(each.failed for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
