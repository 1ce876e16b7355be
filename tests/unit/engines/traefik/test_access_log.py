"""Lines of Traefik's own access log in lbgen's schema."""

from __future__ import annotations

import json

import pytest

from lbgen.engines.traefik import ENGINE

LINE = {
    "DownstreamContentSize": 576,
    "DownstreamStatus": 200,
    "Duration": 12_900_000,
    "OriginDuration": 12_800_000,
    "RequestHost": "shop.example",
    "RequestMethod": "GET",
    "RequestPath": "/x?secret=1",
    "RetryAttempts": 1,
    "RouterName": "host~shop.example@file -> api~2@file",
    "ServiceAddr": "10.0.0.1:80",
    "ServiceName": "app~api@file",
    "StartUTC": "2026-11-22T20:16:21.530123456Z",
    "entryPointName": "web",
    "request_X-Request-Id": "7",
}


def test_a_line_is_a_record_of_the_schema():
    assert ENGINE.access_record(json.dumps(LINE)) == {
        "time": "2026-11-22T20:16:21.530Z",
        "listener": "web",
        "route": "api",
        "pool": "app",
        "endpoint": "10.0.0.1:80",
        "method": "GET",
        "host": "shop.example",
        "path": "/x",
        "status": 200,
        "duration_ms": 12.9,
        "upstream_ms": 12.8,
        "tries": 2,
        "bytes": 576,
        "request_id": "7",
    }


def test_an_answer_of_traefik_itself_has_no_endpoint():
    line = {key: value for key, value in LINE.items() if key not in ("ServiceAddr", "OriginDuration", "RetryAttempts")}
    record = ENGINE.access_record(json.dumps(line))
    assert record is not None
    assert (record["endpoint"], record["pool"], record["upstream_ms"], record["tries"]) == ("", "", None, 0)


def test_other_lines_are_no_records():
    assert ENGINE.access_record('{"level": "error"}') is None
    assert ENGINE.access_record("[]") is None


def test_a_router_on_several_entry_points_has_the_name_of_its_route():
    """Traefik writes the entry point before it, and not before the routers below it."""
    names = {
        "web-all~+@file": "all",
        "web-web-all~+@file": "web-all",
        "web-all~+second~2@file": "all",
        "web-all@file": "web-all",
        "web-tls~web@file -> web-all~+@file": "web-all",
        "web-all~+~denied@file": "all",
    }
    found = {name: ENGINE.access_record(json.dumps({**LINE, "RouterName": name}))["route"] for name in names}
    assert found == names


@pytest.mark.parametrize(
    "router", ["~no-route~web@file", "web-~refused~web@file", "edge-web@file -> ~no-route~web@file"]
)
def test_what_no_route_takes_has_none(router):
    record = ENGINE.access_record(json.dumps(LINE | {"RouterName": router}))
    assert record is not None
    assert record["route"] == ""
