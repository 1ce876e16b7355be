"""What every client needs is ordinary: no engine asks for `--accept`."""

from __future__ import annotations

import pytest

from tests.clients.place import Places, read, refusal

pytestmark = pytest.mark.engines


def test_check_without_accept(places: Places, subject) -> None:
    ports = dict.fromkeys(("http", "early", "ws", "grpc", "dead"), 8000) | {
        "plain": 8001,
        "clear": 8002,
        "secure": 8003,
    }
    plan = read("http.yaml", places.folder, ports, subject, "listeners.clear.http2")
    assert not refusal(subject, plan)
