"""A field that a hand has changed in rendered files is found by `lbgen verify`, or listed as not tried.

A drill plants every edit, which takes a quarter of an hour; else a few of them, one for each engine.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.prepare import plan_of
from lbgen.diagnostics import LbgenError
from lbgen.runtime.local import network
from tests.verify.planted import PLANTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.verify.planted import Planted

ENGINES = ("envoy", "haproxy", "nginx", "traefik")
SAMPLE = 11  # one in so many edits
COUNTS: Counter[str] = Counter()

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.skipif(bool(network.why_unavailable()), reason=network.why_unavailable() or "it is possible"),
]


@pytest.fixture(scope="module", autouse=True)
def _counted(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        what = ", ".join(f"{count} {word}" for word, count in COUNTS.items())
        print(f"\nplanted edits: {sum(COUNTS.values())} of {len(PLANTED)}: {what}", end="")  # noqa: T201  # to be seen


def serving_engine(planted: Planted, turn: int) -> str:
    """An engine that can serve both topologies, beginning with the one whose turn it is."""
    for name in (*ENGINES[turn % len(ENGINES) :], *ENGINES[: turn % len(ENGINES)]):
        if engines_on_host((name,))[0].binary is None:
            continue
        try:
            for data in (planted.topology(), planted.edited()):
                lbgen.render(plan_of(data), engine=name, accept=("all",))
        except LbgenError:
            continue
        return name
    pytest.skip("no engine here serves it")


@pytest.mark.parametrize(
    ("turn", "planted"),
    [
        pytest.param(
            turn, each, marks=() if turn % SAMPLE == 3 else (pytest.mark.drill,), id=each.name.replace(" ", "-")
        )
        for turn, each in enumerate(PLANTED)
    ],
)
def test_a_planted_edit_is_found_or_listed(turn: int, planted: Planted, tmp_path: Path) -> None:
    engine = serving_engine(planted, turn)
    plan = plan_of(planted.topology())
    lbgen.render(plan_of(planted.edited()), engine=engine, accept=("all",)).write(tmp_path / engine)
    report = lbgen.verify(plan, [engine], accept=("all",), rendered=tmp_path)
    assert not report.broken, report.broken
    assert any(served.edits for served in report.served), "the edit changed nothing"
    found = Counter(each.clause for each in report.differences if each.clause not in ("S1", "S2", "S3", "S4"))
    listed = [field for field in report.untried if field.startswith(planted.field)]
    COUNTS["found" if found else "listed as not tried" if listed else "missed"] += 1
    print(f"{planted.name} | {engine} | {found.most_common()} | {listed}")  # noqa: T201  # read with -rP
    assert found or listed, f"{planted.field} on {engine}"
