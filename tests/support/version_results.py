"""What tests find out about one version of an engine, kept as files for the table of `make test-versions`.

With LBGEN_RESULTS=FOLDER each test writes a file to FOLDER/versions. A test that runs once more alone writes it anew.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

CONFORMANCE, DIFFERENTIAL, FINGERPRINT, VERIFY = "conformance", "differential", "fingerprint", "verify"


@dataclass(frozen=True)
class Outcome:
    """One test of one version. `counts`: cases by state, or requests. `cpu` includes child processes that ended."""

    kind: str
    engine: str
    version: str
    test: str
    counts: dict[str, int]
    seconds: float
    cpu: float
    failed: bool


@contextmanager
def recorded(kind: str, engine: str, version: str, test: str) -> Iterator[Counter[str]]:
    """Time the block, and write what it counts."""
    counts: Counter[str] = Counter()
    begun, used, failed = time.monotonic(), _cpu_seconds(), True
    try:
        yield counts
        failed = False
    except pytest.skip.Exception:
        failed = False
        raise
    finally:
        took = (time.monotonic() - begun, _cpu_seconds() - used)
        write(Outcome(kind, engine, version, test, dict(counts), *took, failed))


def write(outcome: Outcome) -> None:
    """Write the file of an outcome, where LBGEN_RESULTS names a folder."""
    if not (given := os.environ.get("LBGEN_RESULTS")):
        return
    folder = Path(given) / "versions"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{outcome.engine} {outcome.version} {outcome.kind} {outcome.test}.json"
    (folder / name).write_text(json.dumps(asdict(outcome)), encoding="utf-8")


def read(folder: Path) -> list[Outcome]:
    """The outcomes in a folder that LBGEN_RESULTS named."""
    return [Outcome(**json.loads(path.read_text("utf-8"))) for path in sorted((folder / "versions").glob("*.json"))]


def _cpu_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
