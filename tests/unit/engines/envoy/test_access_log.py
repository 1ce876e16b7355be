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
    "host": "no-host.invalid",
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
    assert (found["pool"], found["host"], found["request_id"]) == ("p", "", "")
    assert (found["duration_ms"], found["upstream_ms"], found["tries"]) == (2.5, 2.0, 1)


def test_an_answer_of_its_own_had_no_endpoint() -> None:
    found = parse_record(json.dumps({**LINE, "endpoint": None, "pool": None, "tries": None}))
    assert found is not None
    assert (found["endpoint"], found["pool"], found["upstream_ms"], found["tries"]) == ("", "", None, 0)


@pytest.mark.parametrize(
    ("changes", "route"),
    [
        ({"status": 400}, ""),
        ({"status": 400, "endpoint": "10.0.0.1:80"}, "r"),
        ({"status": 403}, "r"),
        ({"status": 400, "because": "direct_response"}, "r"),  # a fixed response of the route
        ({"status": 400, "because": "rbac_access_denied_matched_policy[b-malformed]"}, ""),
    ],
)
def test_a_refused_request_has_no_route(changes: dict[str, object], route: str) -> None:
    found = parse_record(json.dumps({**LINE, "endpoint": None, **changes}))
    assert found is not None
    assert found["route"] == route


@pytest.mark.parametrize("line", ["", "[2026] warning", "{", "[]", '{"a": 1}'])
def test_other_lines(line: str) -> None:
    assert parse_record(line) is None
