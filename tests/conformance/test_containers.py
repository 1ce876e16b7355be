"""Cases on engines in containers, the same as on processes: a sample, or all of them in a drill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.case import case_files
from lbgen.conformance.engine_under_test import engines_in_images
from lbgen.conformance.runner import CaseState, run_file
from lbgen.engines.api import local_engines
from lbgen.runtime.docker.single_engine import share_netns
from tests.support.case_failures import failures
from tests.support.daemon import AS_ROOT, IN_CONTAINERS
from tests.support.engine_lists import L7_ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

    from lbgen.conformance.case import CaseFile
    from lbgen.runtime.docker.single_engine import SharedNetns

pytestmark = [
    *IN_CONTAINERS,
    AS_ROOT,
]
SAMPLE = ("4-answers", "7-l4")  # engines of HTTP have the first one, the others the second
OF_NGINX = ("6-health-active", "6.active.refused")  # file and case: its agent is in a container of its own


def rows() -> Iterator[ParameterSet]:
    """Each file with each engine."""
    for file in case_files():
        for engine in local_engines():
            marks = () if file.name == SAMPLE[engine not in L7_ENGINES] else (pytest.mark.drill,)
            yield pytest.param(file, engine, "", marks=marks, id=f"{file.name}-{engine}")
        if file.name == OF_NGINX[0]:
            yield pytest.param(file, "nginx", OF_NGINX[1], id=OF_NGINX[1])


@pytest.fixture(scope="module")
def place() -> Iterator[SharedNetns]:
    with share_netns() as made:
        yield made


@pytest.mark.parametrize(("file", "name", "only"), [*rows()])
def test_cases(file: CaseFile, name: str, only: str, place: SharedNetns, every: bool) -> None:
    for subject in engines_in_images([name], place)[: None if every else 1]:
        results = run_file(file, subject, wanted=lambda case: case.id.startswith(only))
        failed = failures(results)
        assert not failed, failed
        assert results
        if all(r.state is CaseState.SKIPPED for r in results):
            assert subject.gap, results[0].detail
            pytest.skip(f"{subject.label}: {len(results)} cases not run: {subject.gap}")
