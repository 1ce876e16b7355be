"""Every case file on every engine of this host; fails with the difference and how to send the request again.

Many cases measure times, and tests beside them delay them: those that fail run once more, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.case import case_files
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.report import as_json
from lbgen.conformance.runner import CaseState, Result, run_file
from tests.support.case_failures import failures
from tests.support.engine_lists import L7_ENGINES
from tests.support.version_results import CONFORMANCE, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

pytestmark = pytest.mark.engines
HERE = [subject for subject in engines_on_host() if subject.binary is not None]
SAMPLE = 8  # of older versions one in so many files; the others are drills
ABSENT = [subject for subject in engines_on_host() if subject.binary is None]
COUNTS: Counter[tuple[str, CaseState]] = Counter()


@pytest.fixture(scope="session", autouse=True)
def _told(request: pytest.FixtureRequest):
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for subject in sorted({s for s, _ in COUNTS}):
            counts = ", ".join(f"{COUNTS[subject, state]} {state}" for state in CaseState if COUNTS[subject, state])
            print(f"\nconformance, {subject}: {counts}", end="")  # noqa: T201  # the count of gaps must be seen


def pairs() -> Iterator[ParameterSet]:
    """Each file with each engine."""
    for turn, file in enumerate(case_files()):
        for number, subject in enumerate(HERE):
            is_older = any(x.engine == subject.engine for x in HERE[:number])
            left_out = is_older and turn % SAMPLE != number % SAMPLE
            refused = subject.engine not in L7_ENGINES and not file.name.startswith("7-")  # most of it, at least
            marks = (pytest.mark.drill,) if left_out or refused else ()
            yield pytest.param(file, subject, marks=marks, id=f"{file.name}-{subject.label.replace(' ', '-')}")


@pytest.mark.parametrize(("file", "subject"), [*pairs()])
def test_cases(file, subject) -> None:
    with recorded(CONFORMANCE, subject.engine, subject.version, file.name) as counts:
        results = judged_twice(file, subject)
        counts.update(str(each.state) for each in results)
        if folder := os.environ.get("LBGEN_RESULTS"):  # python -m lbgen.conformance --from FOLDER makes the matrix
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{subject.label} {file.name}.json").write_text(as_json(results), encoding="utf-8")
        _judged(results)


@pytest.mark.parametrize("subject", ABSENT, ids=lambda s: s.label.replace(" ", "-"))
def test_versions_that_are_not_here(subject) -> None:
    """One gap each, not one for every file; `make test-versions` fetches what can be had."""
    pytest.skip(subject.gap)


def judged_twice(file, subject) -> tuple[Result, ...]:
    """The results of a file; of a case that failed the second one."""
    results = run_file(file, subject)
    failed = {r.case for r in results if r.state is CaseState.FAIL}
    if not failed:
        return results
    warnings.warn(f"{subject.label}: {', '.join(sorted(failed))} once more", stacklevel=2)
    again = {r.case: r for r in run_file(file, subject, wanted=lambda case: case.id in failed)}
    return tuple(again.get(r.case, r) for r in results)


def _judged(results) -> None:
    COUNTS.update((r.subject, r.state) for r in results)
    failed = failures(results)
    assert not failed, failed
    if all(r.state is CaseState.SKIPPED for r in results):
        pytest.skip(f"{len(results)} cases not run: {results[0].detail}")
