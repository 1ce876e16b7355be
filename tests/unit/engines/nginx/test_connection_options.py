"""nginx: where requests go whose Connection header names fields."""

from __future__ import annotations

import lbgen

POOLS = {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}}


def rendered(routes: list[dict], **more: object) -> str:
    data = {"version": 1, "name": "t", "listeners": {"web": {"port": 8080}}, "pools": POOLS, "routes": routes, **more}
    return lbgen.render(lbgen.load(data), engine="nginx", accept=("all",))["nginx.conf"]


def test_the_server_block_sends_them_by_the_rules_of_its_host():
    text = rendered(
        [
            {"name": "a", "match": [{"path": {"prefix": "/a"}}], "forward": "p"},
            {"name": "gone", "match": [{"path": {"exact": "/gone"}}], "respond": {"status": 410}},
        ]
    )
    assert "if ($filtered_every_host) { set $filtered $filtered_every_host; return 596; }" in text
    assert '"~^/gone[?\\n]" "";' in text  # answered where it is
    assert '"~^/a[/?\\n]" a;' in text
    assert "if ($nominates)" not in text


def test_the_answer_to_a_broken_body_is_not_sent_there_again():
    text = rendered([{"name": "a", "forward": "p"}])
    assert 'map $uri $forwarded_any { volatile; /../refused ""; default 1; }' in text
    assert "if ($filtered_any) { set $filtered a; return 596; }" in text


def test_hosts_with_one_route_each_share_their_variables():
    text = rendered([{"name": n, "hosts": [f"{n}.test"], "forward": "p"} for n in ("a", "b", "c")])
    assert text.count("map $uri $forwarded_") == text.count("map $nominates $filtered_") == 1
    assert text.count("if ($filtered_any) { set $filtered ") == 3


def test_a_route_that_continues_elsewhere_tests_them_in_its_location():
    text = rendered([{"name": "a", "forward": "p", "retries": {"max": 1, "on": ["connect_failure"]}}])
    assert "if ($nominates) { set $filtered a" in text
    assert "if ($filtered_" not in text


def test_the_locations_of_routes_that_differ_in_their_pool_are_one():
    pools = POOLS | {"q": {"endpoints": [{"address": "10.0.0.2:80"}]}}
    routes = [{"name": n, "match": [{"path": {"prefix": f"/{n}"}}], "forward": f} for n, f in (("a", "p"), ("b", "q"))]
    text = rendered(routes, pools=pools)
    assert text.count("location @filtered") == 1
    assert "map $filtered $filtered_to { volatile; a p; b q;" in text.replace("\n       ", "").replace("\n", " ")


def test_a_mirror_is_sent_the_same_fields():
    pools = POOLS | {"q": {"endpoints": [{"address": "10.0.0.2:80"}]}}
    text = rendered([{"name": "a", "forward": "p", "mirror": {"pool": "q", "percent": 100}}], pools=pools)
    assert 'set $filtered ""' not in text
