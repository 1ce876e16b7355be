"""HAProxy's access log: lines read into records of lbgen's schema."""

from __future__ import annotations

import json

from lbgen.engines.haproxy import ENGINE

LINE = {
    "lbgen_begun": "1790000000123",
    "accepted": "1789999999",
    "ms": "7",
    "listener": "web",
    "route": "api/2",
    "pool": "p",
    "server": "s1",
    "endpoint": "10.0.0.1:80",
    "method": "GET",
    "host": "Shop.example:8080",
    "path": "/api/x",
    "status": "200",
    "end": "--",
    "took": "25",
    "read": "3",
    "waited": "2",
    "retries": "+1",
    "sent": "58",
    "length": "5",
    "heads": "29",
    "lines": "2",
    "id": "abc",
}


def record(**changes: str):
    return ENGINE.access_record(json.dumps({**LINE, **changes}))


def test_a_forwarded_request() -> None:
    assert record() == {
        "time": "2026-09-21T14:13:20.123Z",
        "listener": "web",
        "route": "api",
        "pool": "p",
        "endpoint": "10.0.0.1:80",
        "method": "GET",
        "host": "Shop.example:8080",
        "path": "/api/x",
        "status": 200,
        "duration_ms": 25,
        "upstream_ms": 20,
        "tries": 2,
        "bytes": 5,
        "request_id": "abc",
    }


def test_an_answer_of_its_own() -> None:
    found = record(server="<NOSRV>", endpoint="-:-", pool="-", retries="0", read="0", waited="-1")
    assert found is not None
    assert (found["endpoint"], found["pool"], found["tries"], found["upstream_ms"]) == ("", "", 0, None)


def test_a_body_without_a_length_is_worked_out() -> None:
    found = record(length="-", sent="73", heads="38")
    assert found is not None
    assert found["bytes"] == 10


def test_a_head_that_could_not_be_read() -> None:
    found = record(lbgen_begun="-", method="-", host="-", path="-", status="400", route="-", id="-")
    assert found is not None
    assert (found["time"], found["method"], found["route"]) == ("2026-09-21T14:13:19.007Z", "", "")


def test_other_lines_are_none() -> None:
    assert ENGINE.access_record("[NOTICE] (1) : New worker forked") is None
    assert ENGINE.access_record('{"lbgen_begun": broken') is None
