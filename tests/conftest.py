"""What all tests share: `--update-golden` rewrites the files that tests compare with."""

from __future__ import annotations

import os

import pytest

# Workers must not pick the same free port: each has a range of its own, apart from those fixed in tests/engines.
if _WORKER := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["LBGEN_CONFORMANCE_PORTS"] = str(27_000 + 1_400 * (int(_WORKER.removeprefix("gw")) % 4))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--topologies", type=int, default=1, help="random topologies to verify (tests/differential)")
    parser.addoption("--topologies-seed", type=int, default=1, help="draws them")
    parser.addoption("--topologies-first", type=int, default=1, help="number of the first one: goes on with a run")
    parser.addoption("--topologies-log", default="", help="file that gets a line of JSON for each")
    parser.addoption("--update-golden", action="store_true", help="rewrite expected files, then read the diff")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on fixed ports, or that wait for processes to come and go, must not share the machine with others."""
    for item in items:
        if item.get_closest_marker("xdist_group") or "engines" in item.path.parts:
            item.add_marker(pytest.mark.alone)
