"""nginx: bodies of locations that are written once."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

import lbgen
from tests.support.nginx import with_includes

if TYPE_CHECKING:
    import pytest

POOLS = {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}}


def rendered(routes: list[dict]) -> dict[str, str]:
    data = {"version": 1, "name": "t", "listeners": {"web": {"port": 8080}}, "pools": POOLS, "routes": routes}
    return lbgen.render(lbgen.load(data), engine="nginx", accept=("all",))


def at(name: str, **more: object) -> dict:
    return {"name": name, "match": [{"path": {"prefix": f"/{name}"}}], "forward": "p", **more}


def test_a_long_body_of_two_locations_is_a_file_of_its_own():
    files = rendered([at("a", response_headers={"set": {"x-a": "1"}}), at("b")])
    text = files["nginx.conf"]
    assert "location = /a { include routes/a.conf; }" in text
    assert "location ^~ /a/ { include routes/a.conf; }" in text
    assert "add_header X-A 1 always;" in files["routes/a.conf"]
    assert "location = /b { set $logged_route b; proxy_pass http://p; }" in text
    assert [name for name in files if name.startswith("routes/")] == ["routes/a.conf"]


def test_a_body_that_is_used_once_stays_in_place():
    files = rendered([{"name": "a", "forward": "p", "response_headers": {"set": {"x-a": "1"}}}])
    assert set(files) == {"nginx.conf"}
    exact = {"name": "a", "match": [{"path": {"exact": "/a"}}], "redirect": {"path": "/b"}}
    assert set(rendered([exact])) == {"nginx.conf"}


def test_headers_that_a_route_adds_to_come_after_the_shared_ones():
    files = rendered([at("a", request_headers={"set": {"x-a": "1"}}), at("b")])
    body = files["routes/a.conf"]
    assert body.index("include proxy_headers.conf;") < body.index("proxy_set_header X-A 1;")
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in files["proxy_headers.conf"]
    assert with_includes(files).count("proxy_set_header X-Forwarded-For") >= 2


def test_a_header_that_a_route_replaces_is_not_set_twice():
    files = rendered([at("a", request_headers={"set": {"x-request-id": "1"}})])
    assert "proxy_headers.conf" not in files
    assert files["routes/a.conf"].count("X-Request-ID") == 1


def test_many_routes_cost_few_lines():
    lines = []
    for count in (10, 110):
        files = rendered([at(f"r{n}") for n in range(count)])
        lines.append(sum(text.count("\n") for name, text in files.items() if name.endswith(".conf")))
    assert (lines[1] - lines[0]) / 100 <= 5


def test_names_of_files_do_not_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second body of route `a` and the first of `a-2` were one file: the rewrite of another rule was sent."""
    more = {"rewrite": {"prefix": "/v1"}, "response_headers": {"set": {"x-a": "1"}}}
    rules = [{"path": {"prefix": "/b"}}, {"path": {"prefix": "/c"}}]
    routes = [{"name": "a", "match": rules, "forward": "p", **more}, at("a-2", **more)]
    shared = rendered(routes)
    monkeypatch.setattr(import_module("lbgen.engines.nginx.build"), "_is_short", lambda _: True)
    whole = rendered(routes)
    assert any(name.startswith("routes/") for name in shared)
    assert not any(name.startswith("routes/") for name in whole)
    sends = re.compile(r"location ([^{]*) {|(proxy_pass [^;]*);")
    assert sends.findall(with_includes(shared)) == sends.findall(with_includes(whole))
