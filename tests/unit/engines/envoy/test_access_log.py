"""Lines of Envoy's access log in lbgen's schema."""

from __future__ import annotations

import json

import pytest

from lbgen.engines.envoy.access_log import parse_record

LINE = {
    "time": "2026-11-21T10:00:00.000Z",
    "listener": "web",
    "route": "r",
    "pool": "p@500ms",
    "endpoint": "10.0.0.1:80",
    "method": "GET",
    "host": "h",
    "path": "/x",
    "status": 504,
    "duration_us": 2500,
    "upstream_us": None,
    "tried_us": 2000,
    "tries": 1,
    "bytes": 16,
    "request_id": None,
    "total_ms": 3,
}


def test_a_line_of_the_log() -> None:
    found = parse_record(json.dumps(LINE))
    assert found is not None
    assert (found["pool"], found["host"], found["request_id"]) == ("p", "h", "")
    assert (found["duration_ms"], found["upstream_ms"], found["tries"]) == (2.5, 2.0, 1)


def test_an_answer_of_its_own_had_no_endpoint() -> None:
    found = parse_record(json.dumps({**LINE, "endpoint": None, "pool": None, "tries": None}))
    assert found is not None
    assert (found["endpoint"], found["pool"], found["upstream_ms"], found["tries"]) == ("", "", None, 0)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"status": 200, "grpc": 14, "because": "no_healthy_upstream"}, 503),
        ({"status": 200, "grpc": 8, "because": "local_rate_limited"}, 429),
        ({"status": 200, "grpc": 2, "because": "direct_response"}, 500),
        ({"status": 200, "grpc": 5, "because": "via_upstream"}, 200),  # an endpoint's own
        ({"status": 200, "grpc": None, "because": "via_upstream"}, 200),
    ],
)
def test_an_answer_of_envoy_to_a_grpc_client_counts_as_the_error_that_it_is(
    changes: dict[str, object], status: int
) -> None:
    found = parse_record(json.dumps({**LINE, **changes}))
    assert found is not None
    assert found["status"] == status


@pytest.mark.parametrize("line", ["", "[2026] warning", "{", "[]", '{"a": 1}'])
def test_other_lines(line: str) -> None:
    assert parse_record(line) is None
