"""CORS and compression: what the oracle says of answers."""

import pytest

import lbgen
from lbgen.plan.compression import accepts_gzip, compresses
from lbgen.plan.cors import is_preflight, preflight_headers, response_edits
from lbgen.plan.policy import Compression, Cors, Origin
from lbgen.plan.request import Request, parse_request

SHOP = Origin("https", "shop.example")
CORS = Cors((SHOP,), ("GET", "PUT"), ("x-csrf",), ("x-total",), credentials=True, max_age=600)
OPEN = Cors((Origin("", "", any=True),), ("GET",), (), (), credentials=False, max_age=None)


def asked(method="OPTIONS", origin="https://shop.example", want="PUT", headers=""):
    lines = [("Host", "h"), ("Origin", origin), ("Access-Control-Request-Method", want)]
    lines += [("Access-Control-Request-Headers", headers)] if headers else []
    return parse_request(Request(method, "/", tuple((n, v) for n, v in lines if v)))


def test_what_a_preflight_is() -> None:
    assert is_preflight(asked())
    assert not is_preflight(asked("GET"))
    assert not is_preflight(asked(origin=""))
    assert not is_preflight(asked(want=""))


def test_an_allowed_preflight() -> None:
    assert dict(preflight_headers(CORS, asked(headers="X-CSRF, Content-Type"))) == {
        "access-control-allow-origin": "https://shop.example",
        "access-control-allow-methods": "GET, PUT",
        "access-control-allow-headers": "x-csrf",
        "access-control-allow-credentials": "true",
        "access-control-max-age": "600",
    }
    assert dict(preflight_headers(OPEN, asked(want="POST"))) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET",
    }


@pytest.mark.parametrize(
    "request_",
    [
        asked(origin="https://evil.example"),
        asked(origin="http://shop.example"),
        asked(origin="https://shop.example:8443"),
        asked(origin="null"),
        asked(want="DELETE"),
        asked(want="put"),
        asked(headers="x-csrf, x-other"),
    ],
)
def test_a_preflight_that_is_not_allowed(request_) -> None:
    assert preflight_headers(CORS, request_) == ()


def test_other_answers() -> None:
    edits = response_edits(CORS, asked("GET"))
    assert dict(edits.set) == {
        "access-control-allow-origin": "https://shop.example",
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "x-total",
    }
    assert edits.add == (("vary", "Origin"),)
    assert "access-control-allow-methods" in edits.remove
    refused = response_edits(CORS, asked("GET", origin="https://evil.example"))
    assert (refused.set, refused.add, refused.remove) == ((), edits.add, edits.remove)
    assert (response_edits(OPEN, asked("GET")).set, response_edits(OPEN, asked("GET")).add) == (
        (("access-control-allow-origin", "*"),),
        (),
    )


@pytest.mark.parametrize(
    ("lines", "accepts"),
    [
        (["gzip"], True),
        (["br, GZIP;q=0.5"], True),
        (["br", "gzip"], True),
        (["gzip; q=0"], False),
        (["gzip;q=0.000"], False),
        (["br, deflate"], False),
        (["*"], False),
        (["xgzip"], False),
        ([], False),
    ],
)
def test_accepts_gzip(lines, accepts) -> None:
    assert accepts_gzip(lines) is accepts


@pytest.mark.parametrize(
    ("status", "headers", "length", "packed"),
    [
        (200, {"content-type": "text/plain; charset=utf-8"}, 1000, True),
        (200, {"content-type": "Text/Plain"}, None, True),
        (200, {"content-type": "text/plain"}, 999, False),
        (200, {"content-type": "text/plainer"}, 1000, False),
        (200, {}, 1000, False),
        (206, {"content-type": "text/plain"}, 1000, False),
        (404, {"content-type": "text/plain"}, 1000, False),
        (200, {"content-type": "text/plain", "content-encoding": "br"}, 1000, False),
        (200, {"content-type": "text/plain", "cache-control": "public, No-Transform"}, 1000, False),
    ],
)
def test_what_is_compressed(status, headers, length, packed) -> None:
    asked_for = Compression(("text/plain",), 1000)
    assert compresses(asked_for, ["gzip"], status, headers.items(), length) is packed
    assert not compresses(asked_for, ["br"], status, headers.items(), length)


@pytest.mark.parametrize(
    ("written", "covered", "others"),
    [
        ("null", "null", ["", "null:1", "https://null"]),
        ("capacitor://localhost", "capacitor://localhost", ["capacitor://localhost:1", "https://localhost"]),
        ("http://localhost:*", "http://localhost:3000", ["http://localhost:", "http://localhost:3000.evil.example"]),
        ("http://localhost:*", "http://localhost", ["http://localhost.evil.example", "http://a@localhost:1"]),
        ("http://[::1]:*", "http://[::1]:80", ["http://[::1]x"]),
        (
            "https://*.a.example:*",
            "https://b.a.example:8443",
            ["https://a.example:8443", "https://evil.example/.a.example"],
        ),
    ],
)
def test_origins_are_what_browsers_send(written: str, covered: str, others: list[str]) -> None:
    route = {"name": "r", "forward": "p", "cors": {"origins": [written]}}
    pools = {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}}
    data = {"version": 1, "name": "x", "listeners": {"web": {"port": 80}}, "pools": pools, "routes": [route]}
    policy = lbgen.plan(lbgen.load(data)).routes[0].cors
    assert policy is not None
    (origin,) = policy.origins
    assert origin.covers(covered)
    assert not any(map(origin.covers, others))
