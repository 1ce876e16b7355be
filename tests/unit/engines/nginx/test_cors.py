"""nginx: what the maps of CORS and compression say, compared with the oracle's own rules."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.nginx.compression import CompressionMaps
from lbgen.engines.nginx.cors import _grant_regex, _origin_regex
from lbgen.engines.nginx.names import Names
from lbgen.plan.model import Respond, Route
from lbgen.plan.policy import Compression, Cors, Origin

ORIGINS = (
    Origin("https", "shop.example"),
    Origin("https", "shop.example", wildcard=True),
    Origin("http", "shop.example", 8080),
    Origin("https", "shop.example", 8443, wildcard=True),
    Origin("", "", any=True),
)
ASKED = (
    "https://shop.example",
    "https://a.shop.example",
    "https://a.b.shop.example",
    "https://ashop.example",
    "https://shop.example:8080",
    "http://shop.example:8080",
    "https://a.shop.example:8443",
    "https://shop.example.evil",
    "https://shopxexample",
    "HTTPS://shop.example",
    "https://evil.example/.shop.example",
    "https://evil.example?.shop.example",
    "https://evil.example#.shop.example:8080",
    "https://me@a.shop.example",
    "null",
)


@pytest.mark.parametrize("origin", ORIGINS)
def test_origins(origin):
    for asked in ASKED:
        assert bool(re.search(_origin_regex(origin), asked)) == origin.covers(asked), asked


@pytest.mark.parametrize(
    ("method", "headers", "granted"),
    [
        ("PUT", "", True),
        ("HEAD", "", True),
        ("DELETE", "", False),
        ("put", "", False),
        ("PUT", "x-csrf", True),
        ("PUT", "X-CSRF , content-type", True),
        ("PUT", "x-csrf,,accept", True),
        ("PUT", "x-csrf, x-other", False),
        ("PUT", "x-csrfx", False),
    ],
)
def test_preflights(method, headers, granted):
    cors = Cors((ORIGINS[0],), ("GET", "PUT"), ("x-csrf",), (), credentials=False, max_age=None)
    key = f"1\nhttps://shop.example\n{method}\n{headers}\n"
    assert bool(re.search(_grant_regex(cors), key)) == granted
    assert not re.search(_grant_regex(cors), key.replace("https://shop.example", ""))


@pytest.mark.parametrize(
    ("accepted", "status", "media", "coding", "length", "compressed"),
    [
        ("gzip", 200, "application/json", "", "1024", True),
        ("br, gzip;q=0.5", 200, "application/json; charset=utf-8", "", "", True),
        ("gzip;q=0", 200, "application/json", "", "2048", False),
        ("x-gzip", 200, "application/json", "", "2048", False),
        ("gzip", 200, "application/json", "", "1023", False),
        ("gzip", 500, "application/json", "", "2048", False),
        ("gzip", 200, "image/png", "", "2048", False),
        ("gzip", 200, "application/json", "br", "2048", False),
        ("", 200, "application/json", "", "2048", False),
    ],
)
def test_vary_is_said_of_compressed_answers(accepted, status, media, coding, length, compressed):
    made = CompressionMaps(Names())
    made.vary(Route("r", 0, Respond(200, "", ()), "routes[0]"), Compression(("application/json",), 1024))
    regex = made.maps[0].entries[0].key.text
    assert bool(re.search(regex, f"{accepted}\n{status}\n{media}\n{coding}\n{length}\n")) == compressed
