"""HAProxy's access log: lines read into records of lbgen's schema."""

from __future__ import annotations

import json
import re

import pytest

from lbgen.engines.haproxy import ENGINE
from lbgen.engines.metrics_spec import L4_MARK, ConnectionRecord, connection_record
from lbgen.plan.resolve import plan
from lbgen.spec.load import load

LINE = {
    "lbgen": "1789999999.7",
    "timers": "2/1114/3/2/25",
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
    "retries": "+1",
    "sent": "58",
    "length": "5",
    "id": "abc",
}


def record(**changes: str):
    return ENGINE.access_record(json.dumps({**LINE, **changes}, separators=(",", ":")))


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


NO_ENDPOINT = {"server": "<NOSRV>", "endpoint": "-:-", "retries": "0", "timers": "0/0/0/-1/25"}


def test_an_answer_of_its_own() -> None:
    found = record(**NO_ENDPOINT, pool="route:web:api:2")
    assert found is not None
    assert (found["endpoint"], found["pool"], found["tries"], found["upstream_ms"]) == ("", "", 0, None)


def test_the_pool_is_that_of_the_backend() -> None:
    pools = [
        ({"pool": "p:2"}, "p"),
        ({"pool": "route:2"}, "route"),
        ({"pool": "web"}, "web"),
        ({"pool": "web", **NO_ENDPOINT}, ""),  # the frontend itself answered
        ({"pool": "web", **NO_ENDPOINT, "status": "503"}, "web"),
    ]
    for changes, pool in pools:
        found = record(**changes)
        assert found is not None
        assert found["pool"] == pool, changes


@pytest.mark.parametrize(
    ("logged", "path"),
    [
        ("/a#22", '/a"'),
        ("/#C3#A9#23", "/é#"),
        ("/%22#7f", "/%22#7f"),
        ("/#FFx", "/x"),
        ("/" + "a" * 5000, "/" + "a" * 5000),
    ],
)
def test_codes_of_a_path_are_decoded(logged, path) -> None:
    found = record(path=logged)
    assert found is not None
    assert found["path"] == path


def test_a_backslash_in_a_path_ends_no_string() -> None:
    line = json.dumps({**LINE, "path": "PATH"}, separators=(",", ":")).replace("PATH", "/a\\")
    found = ENGINE.access_record(line)
    assert found is not None
    assert found["path"] == "/a\\"


def test_an_id_is_that_of_the_trusted_proxy_or_its_own() -> None:
    kept, own = record(id="theirs", own_id="ours"), record(id="-", own_id="ours")
    assert kept is not None
    assert own is not None
    assert (kept["request_id"], own["request_id"]) == ("theirs", "ours")


def test_a_body_without_a_length_is_counted_with_its_head() -> None:
    found, cut = record(length="-", sent="73"), record(length="100", sent="73", end="SD")
    assert found is not None
    assert cut is not None
    assert (found["bytes"], cut["bytes"]) == (73, 73)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ({"end": "CH", "status": "408", "length": "-"}, 0),
        ({"end": "CD", "status": "408", "length": "-", "sent": "0"}, 0),  # over HTTP/2
        ({"end": "CQ", "status": "-1", "length": "-", **NO_ENDPOINT}, 0),
        ({"end": "CC", "status": "-1", "length": "-"}, 0),
        ({"end": "CD"}, 200),
        ({"end": "CD", "length": "-"}, 200),
    ],
)
def test_a_client_that_left_before_a_response(line, status) -> None:
    found = record(**line)
    assert found is not None
    assert found["status"] == status


def test_a_head_that_could_not_be_read() -> None:
    found = record(method="<BADREQ>", host="-", path="<BADREQ>", status="400", id="-")
    assert found is not None
    assert (found["time"], found["method"], found["route"]) == ("2026-09-21T14:13:20.123Z", "", "")


def test_other_lines_are_none() -> None:
    assert ENGINE.access_record("[NOTICE] (1) : New worker forked") is None
    assert ENGINE.access_record('{"lbgen": broken') is None


def test_one_line_about_a_connection_is_for_people_and_for_the_agent() -> None:
    data = {
        "version": 1,
        "name": "t",
        "access_log": "json",
        "metrics": {"port": 9100},
        "listeners": {"db": {"port": 5432, "mode": "l4"}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:5432"}]}},
        "routes": [{"name": "r", "listeners": ["db"], "forward": "p"}],
    }
    config = next(file.text for file in ENGINE.render(plan(load(data)), "2.8") if file.name == "haproxy.cfg")
    (line,) = re.findall(r"log-format '(.*)'", config)
    assert line.startswith(L4_MARK)
    assert config.count("    log stdout") == config.count("    log fd@") == 1
    values = {"%f": "db", "%b": "p", "%si:%sp": "10.0.0.1:5432", "%Tt": "7", "%U": "3", "%B": "5"}
    for sample, value in values.items():
        line = line.replace(sample, value)
    assert connection_record(line) == ConnectionRecord("db", "p", 7, 3, 5)
    assert connection_record(line.replace("10.0.0.1:5432", "-:-")) is None
