"""nginx: what a request must pass before its route acts."""

from __future__ import annotations

import random
import re
from ipaddress import ip_address, ip_network

import pytest

import lbgen
from lbgen.engines.nginx.access import geo_default, geo_networks
from lbgen.engines.nginx.limits import above, format_rate
from lbgen.plan.policy import Access, Key, KeyKind, RateLimit
from tests.support.nginx import with_includes
from tests.support.plans import topology


@pytest.mark.parametrize("limit", [0, 1, 8, 9, 10, 99, 100, 1024, 1999, 9998, 65536, 10485760])
def test_a_regex_for_numbers_above_a_limit(limit):
    regex = re.compile(above(limit))
    near = [n for n in range(limit - 12, limit + 12) if n >= 0]
    for number in (*near, 0, 7, 10 * limit, limit // 2, 12345678901):
        assert bool(regex.fullmatch(str(number))) == (number > limit), number
        assert bool(regex.fullmatch(f"00{number}")) == (number > limit), number


def answer(access: Access, client: str) -> int:
    """What nginx's geo says: the narrowest network around the address."""
    found = [
        (ip_network(e.network.text).prefixlen, e.value)
        for e in geo_networks(access)
        if ip_address(client) in ip_network(e.network.text)
    ]
    return max(found)[1] if found else geo_default(access)


@pytest.mark.parametrize("seed", range(20))
def test_nested_networks_are_judged_as_the_plan_judges(seed):
    chance = random.Random(seed)
    networks = [
        str(ip_network(f"10.{chance.randrange(3)}.0.0/{bits}", strict=False)) for bits in (7, 8, 14, 15, 16, 16)
    ]
    networks.append("2001:db8::/32")
    access = Access(
        tuple(chance.sample(networks, 3)) if seed % 3 else None, tuple(chance.sample(networks, chance.randrange(4)))
    )
    for client in ("10.0.0.1", "10.1.2.3", "10.2.0.9", "11.0.0.1", "192.0.2.1", "2001:db8::1", "2001:db9::1"):
        assert answer(access, client) == (not access.admits(client)), (access, client)


@pytest.mark.parametrize(
    ("amount", "seconds", "written"),
    [(5, 1, "5r/s"), (120, 60, "2r/s"), (7, 60, "7r/m"), (60, 3600, "1r/m"), (100, 3600, None), (1, 3600, None)],
)
def test_rates_that_nginx_can_write(amount, seconds, written):
    assert format_rate(RateLimit(amount, seconds, 1, Key(KeyKind.ROUTE))) == written


def rendered(data: dict) -> str:
    return with_includes(lbgen.render(lbgen.load(data), engine="nginx", accept=("all",)))


def test_limits_come_before_an_answer_of_nginx_itself():
    text = rendered(
        topology(
            {
                "match": [{"path": {"prefix": "/x"}}],
                "respond": {"status": 200, "body": "x"},
                "rate_limit": {"rate": "5/s", "key": "client_ip"},
                "response_headers": {"set": {"x-a": "1"}},
            }
        )
    )
    assert "limit_req_zone $binary_remote_addr zone=rate-r:10m rate=5r/s;" in text
    place = text[text.index("location ^~ /x/ {") :]
    assert "limit_req zone=rate-r burst=4 nodelay;" in place
    assert "try_files /none @r:answered;" in place


def test_a_counted_client_behind_proxies_leaves_the_peer_for_what_endpoints_are_told():
    route = {"rate_limit": {"rate": "5/s", "key": "client_ip"}}
    text = rendered(topology(route, listener={"trusted_proxies": ["10.0.0.0/8"]}))
    assert "set_real_ip_from 10.0.0.0/8;" in text
    assert "geo $realip_remote_addr $trusted {" in text
    assert '"$http_x_forwarded_for, $realip_remote_addr"' in text


def test_a_rate_that_nginx_cannot_write_is_refused_with_the_nearest():
    with pytest.raises(lbgen.LbgenError, match="the nearest is 2/m"):
        rendered(topology({"forward": "p", "rate_limit": {"rate": "100/h", "key": "route"}}))


def test_targets_of_a_split_that_are_spoken_to_differently_have_places_of_their_own():
    data = topology({"forward": [{"pool": "p", "weight": 1}, {"pool": "s", "weight": 1}], "max_body": "1KiB"})
    data["pools"]["s"] = {"endpoints": [{"address": "10.0.0.2:443"}], "tls": {"server_name": "s.example"}}
    text = rendered(data)
    assert "map ${split_r} $part_r {" in text or "map $split_r $part_r {" in text
    assert "proxy_pass http://p;" in text
    assert "proxy_pass https://s;" in text
    # The limit is at each, not where they are chosen; nginx compares no length on the way to a named location.
    assert text.count("client_max_body_size 1024;") == text.count("if ($over_1024) { return 413; }") == 2
