"""nginx: its access log lines in lbgen's schema."""

from __future__ import annotations

import json

import pytest

from lbgen.engines.nginx import ENGINE


def line(**more: str) -> str:
    fields = {
        "time": "1700000000.500",
        "listener": "web",
        "route": "r",
        "pool": "p",
        "addresses": "10.0.0.1:80, 10.0.0.2:80 : 10.0.0.1:80",
        "method": "GET",
        "host": "H.example:8080",
        "path": "/x",
        "status": "200",
        "duration": "0.250",
        "upstream": "0.100, - : 0.050",
        "bytes": "12",
        "request_id": "abc",
    }
    return json.dumps(fields | more)


def test_a_line_becomes_a_record():
    assert ENGINE.access_record(line()) == {
        "time": "2023-11-14T22:13:20.500Z",
        "listener": "web",
        "route": "r",
        "pool": "p",
        "endpoint": "10.0.0.1:80",
        "method": "GET",
        "host": "H.example:8080",
        "path": "/x",
        "status": 200,
        "duration_ms": 250,
        "upstream_ms": 150,
        "tries": 3,
        "bytes": 12,
        "request_id": "abc",
    }


def test_nobody_was_asked():
    found = ENGINE.access_record(line(addresses="p", upstream="0.000", pool="p~1", status="503"))
    assert found is not None
    assert (found["endpoint"], found["tries"], found["upstream_ms"], found["pool"]) == ("", 0, None, "p")


@pytest.mark.parametrize("sent", ["0", "25"])  # nothing, or 100 Continue
def test_a_client_that_left_got_no_status(sent):
    found = ENGINE.access_record(line(status="499", addresses="[::1]:80", bytes=sent))
    assert found is not None
    assert (found["status"], found["endpoint"]) == (0, "[::1]:80")


def test_a_499_with_a_body_is_that_of_the_endpoint():
    found = ENGINE.access_record(line(status="499", bytes="3"))
    assert found is not None
    assert found["status"] == 499


def test_an_empty_query_is_no_part_of_the_path():
    found = ENGINE.access_record(line(path="/a?"))
    assert found is not None
    assert found["path"] == "/a"


def test_other_lines_are_no_records():
    for other in ("", "2026/01/01 [error] x", "[]", '{"time": "1"}'):
        assert ENGINE.access_record(other) is None
