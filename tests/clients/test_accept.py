"""What every client needs is ordinary: no engine asks for `--accept`."""

from __future__ import annotations

import pytest

from tests.clients.place import Places, name, read, refusal, sample, subjects

pytestmark = pytest.mark.engines


def test_check_without_accept(places: Places, subject) -> None:
    names = ("http", "early", "ws", "grpc", "dead", "broken", "plain", "clear", "secure")
    ports = {each: 8000 + number for number, each in enumerate(names)}
    plan = read("http.yaml", places.folder, ports, subject, "listeners.clear.http2")
    assert not refusal(subject, plan, "pool.health.passive")


def test_check_versions(request: pytest.FixtureRequest) -> None:
    """Counts what a sample leaves out."""
    every = subjects("listener.l7")
    left = sorted({name(each) for each in every} - {name(each) for each in sample(every)})
    if left and not request.config.getoption("--drills"):
        pytest.skip(f"no clients go through {', '.join(left)}: python -m tests.clients")
