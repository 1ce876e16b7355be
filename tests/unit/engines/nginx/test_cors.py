"""nginx: what the maps of CORS hold, compared with the oracle's own rules."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from lbgen.engines.nginx.cors import CORS, _origin_key
from lbgen.engines.nginx.definitions import Definitions
from lbgen.engines.nginx.view import HttpRoute
from lbgen.plan.model import Respond, Route
from lbgen.plan.policy import Cors, Origin

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
    key = _origin_key(origin)
    for asked in ASKED:
        found = bool(re.search(key.text, asked)) if key.kind == "regex" else key.text == asked
        assert found == origin.covers(asked), asked


def test_headers_are_empty_where_they_do_not_belong():
    cors = Cors((ORIGINS[0],), ("GET", "PUT"), ("x-csrf",), ("x-b",), credentials=True, max_age=60)
    on = SimpleNamespace(definitions=Definitions(), cors_headers={})
    route = Route("r", 0, Respond(200, "", ()), "routes[0]", cors=cors)
    headers = dict(CORS.response(HttpRoute(on, None, None, route)))
    maps = on.definitions.defined().maps
    values = {x.name.text: x.entries[0].key.text for x in maps if x.name.text.startswith("$cors_")}

    def given(preflight: int, origin: str) -> set[str]:
        key = f"{preflight}:{origin}"
        return {name.removeprefix("access-control-") for name, at in shown.items() if re.search(values[at], key)}

    shown = {name: at.bare.text for name, at in headers.items() if at.bare and at.bare.text in values}
    del shown["access-control-allow-origin"]
    assert given(1, "https://shop.example") == {"allow-methods", "allow-headers", "max-age", "allow-credentials"}
    assert given(0, "https://shop.example") == {"expose-headers", "allow-credentials"}
    assert given(0, "") == given(1, "") == set()
