"""What every client needs is ordinary: no engine asks for `--accept`."""

from __future__ import annotations

import pytest

from lbgen.plan.features import Feature
from tests.clients.place import Places, name, read, refusal, sample, subjects

pytestmark = pytest.mark.engines


def test_check_without_accept(places: Places, subject) -> None:
    ports = dict.fromkeys(("http", "early", "ws", "grpc", "dead"), 8000) | {
        "plain": 8001,
        "clear": 8002,
        "secure": 8003,
    }
    plan = read("http.yaml", places.folder, ports, subject, "listeners.clear.http2")
    assert not refusal(subject, plan)


def test_check_versions(request: pytest.FixtureRequest) -> None:
    """Counts what a sample leaves out."""
    every = subjects(Feature.L7)
    left = sorted({name(each) for each in every} - {name(each) for each in sample(every)})
    if left and request.config.getoption("--clients") == "sample":
        pytest.skip(f"no clients go through {', '.join(left)}: --clients all, python -m tests.clients")
