"""The oracle on what is let in: addresses behind proxies, sizes, sticky cookies."""

import pytest

import lbgen
from lbgen.plan.admission import client_address
from lbgen.plan.request import Request
from lbgen.plan.simulate import Outcome, simulate

POOLS = {
    "a": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}], "sticky": {"cookie": "LB"}},
    "b": {"endpoints": [{"address": "10.0.1.1:80"}], "sticky": {"cookie": "LB"}},
}


def plan_of(listener: dict | None = None, route: dict | None = None):
    first = {"name": "r", "match": [{"path": {"prefix": "/r"}}], **(route or {"forward": "a"})}
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": POOLS,
        "routes": [
            first,
            {
                "name": "split",
                "match": [{"path": {"prefix": "/split"}}],
                "forward": [{"pool": "a"}, {"pool": "b", "weight": 0}],
            },
        ],
    }
    return lbgen.plan(lbgen.load(data))


def ask(plan, target: str = "/r", *headers: tuple[str, str], **more) -> Outcome:
    return simulate(plan, Request(target=target, headers=(("Host", "h"), *headers), **more))


@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        ("9.9.9.9", ("1.1.1.1",), "9.9.9.9"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("1.1.1.1",), "1.1.1.1"),
        ("10.0.0.1", ("6.6.6.6, 1.1.1.1",), "1.1.1.1"),
        ("10.0.0.1", ("6.6.6.6", "1.1.1.1, 10.0.0.2"), "1.1.1.1"),
        ("10.0.0.1", ("10.0.0.3 , 10.0.0.2",), "10.0.0.3"),
        ("10.0.0.1", ("6.6.6.6, junk, 10.0.0.2",), "10.0.0.2"),
        ("10.0.0.1", ("6.6.6.6, 1.1.1.1:80",), "10.0.0.1"),
        ("10.0.0.1", ("2001:db8::1",), "2001:db8::1"),
        ("10.0.0.1", ("6.6.6.6, ::ffff:10.0.0.2",), "6.6.6.6"),
    ],
)
def test_the_client_behind_proxies(peer: str, lines: tuple[str, ...], client: str) -> None:
    listener = plan_of({"trusted_proxies": ["10.0.0.0/8"]}).listeners[0]
    assert client_address(listener, peer, lines) == client


def test_access_of_listener_and_route() -> None:
    plan = plan_of({"access": {"deny": ["10.0.0.0/8"]}}, {"forward": "a", "access": {"allow": ["127.0.0.1/32"]}})
    assert ask(plan).status is None
    assert ask(plan, client="127.0.0.2").status == 403
    assert ask(plan, client="127.0.0.2").route == "r"
    assert ask(plan, "/nowhere").status == 404
    denied = ask(plan, "/nowhere", client="10.1.1.1")
    assert (denied.status, denied.route, denied.body) == (403, None, "Forbidden\n")


def test_limits_come_before_access_and_after_malformed() -> None:
    plan = plan_of({"access": {"deny": ["10.0.0.0/8"]}, "limits": {"headers": "4KiB", "target": "100B"}})
    long = "/r" + 99 * "x"
    assert ask(plan, long[:-1]).status == 404
    assert (ask(plan, long).status, ask(plan, long).others) == (431, (414,))
    assert ask(plan, long, client="10.0.0.1").status == 431
    assert (ask(plan, long + "/../x").status, ask(plan, long + "/../x").others) == (400, (431, 414))
    # Host: h is 4 + 1 + 4 bytes, X: 1 + 4 and its value
    assert ask(plan, "/r", ("X", 4082 * "y")).status is None
    assert ask(plan, "/r", ("X", 4083 * "y")).status == 431


def test_max_body_and_what_else_is_broken() -> None:
    route = {
        "forward": "a",
        "max_body": "10B",
        "access": {"deny": ["127.0.0.2/32"]},
        "response_headers": {"set": {"x-a": "1"}},
    }
    plan = plan_of(None, route)
    assert ask(plan, method="POST", body=10 * b"x").status is None
    over = ask(plan, method="POST", body=11 * b"x")
    assert (over.status, over.body, over.response_edits.set) == (413, "Content Too Large\n", (("x-a", "1"),))
    both = ask(plan, method="POST", body=11 * b"x", client="127.0.0.2")
    assert (both.status, both.others) == (403, (413,))
    assert ask(plan, "/r", ("Content-Length", "11"), method="POST").status == 413


def test_what_depends_on_other_requests_may_come_too() -> None:
    plan = plan_of(None, {"forward": "a", "rate_limit": {"rate": "1/s", "key": "client_ip"}})
    assert (ask(plan).status, ask(plan).others) == (None, (429,))


def test_a_sticky_cookie_decides_the_pool_of_a_split() -> None:
    plan = plan_of()
    ids = {e.authority: e.cookie_value for p in plan.pools for e in p.endpoints}
    free = ask(plan, "/split")
    assert [(u.pool, u.endpoint) for u in free.upstreams] == [("a", None)]
    for pool, authority in (("a", "10.0.0.2:80"), ("b", "10.0.1.1:80")):
        held = ask(plan, "/split", ("Cookie", f"x=1; LB={ids[authority]}"))
        assert [(u.pool, u.endpoint) for u in held.upstreams] == [(pool, authority)]
        assert dict(held.upstreams[0].headers)["cookie"] == f"x=1; LB={ids[authority]}"
    assert len(ask(plan, "/split", ("Cookie", "LB=10.0.0.2:80")).upstreams) == 1
    assert ask(plan, "/split", ("Cookie", "LB=10.0.0.2:80")).upstreams[0].endpoint is None
