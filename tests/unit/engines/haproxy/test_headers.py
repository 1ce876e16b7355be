"""Heads that need no rule on framing or on hop-by-hop headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lbgen.engines.haproxy.headers import dropped_names, plain_head
from lbgen.plan.resolve import plan
from lbgen.spec.load import load

if TYPE_CHECKING:
    from lbgen.plan.model import Listener


def planned_listener(listener: dict | None = None, **fields: object) -> Listener:
    topology = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "forward": "p"}],
        **fields,
    }
    return plan(load(topology)).listeners[0]


def is_plain(listener: Listener, *lines: str) -> bool:
    # Without what keeps PCRE from trying again, which Python before 3.11.5 gets wrong; what matches is the same.
    pattern = re.sub(r"(?<=[\])])([*+?])\+", r"\1", plain_head(listener))
    return re.search(pattern, "".join(f"{line}\r\n" for line in (*lines, ""))) is not None


PRODUCTION = planned_listener()
MINIMAL = planned_listener(forwarded_headers=False, request_id=False)


@pytest.mark.parametrize(
    "lines",
    [
        ["host: shop.example"],
        ["host: Shop.example:8080", "accept: */*", "cookie: a=b; c=\xe9\ttab"],
        ["accept: ", "host: localhost:59999", "content-length: 17", "upgrade-insecure-requests: 1"],
        ["host: shop.example", "connection: keep-alive"],
        ["connection: Keep-Alive", "host: shop.example"],
    ],
)
def test_what_most_clients_send(lines: list[str]) -> None:
    assert is_plain(PRODUCTION, *lines)
    assert is_plain(MINIMAL, *lines)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["accept: */*"],
        ["host: a", "host: a"],
        ["host: "],
        ["host: a:70000"],
        ["host: [::1]"],
        ["host: a", "connection: x-a"],
        ["host: a", "connection: keep-alive, x-a"],
        ["host: a", "te: trailers"],
        ["host: a", "keep-alive: timeout=5"],
        ["upgrade: websocket", "host: a"],
        ["host: a", "x_a: b"],
        ["host: a", "x-a: \x01"],
        ["host: a", "content-length: 1234567890123456789"],
        ["content-length: +1", "host: a"],
    ],
)
def test_what_the_rules_look_at(lines: list[str]) -> None:
    assert not is_plain(PRODUCTION, *lines)


def test_a_clients_claims_are_looked_at_where_nothing_replaces_them() -> None:
    for name in ("x-forwarded-for", "x-forwarded-proto", "x-request-id"):
        assert is_plain(PRODUCTION, "host: a", f"{name}: b")
        assert not is_plain(MINIMAL, "host: a", f"{name}: b")
        assert re.search(dropped_names(MINIMAL, underscores=False) or "^$", name)
    assert dropped_names(PRODUCTION, underscores=False) is None
    assert dropped_names(PRODUCTION, underscores=True) == "_"


def test_underscores_pass_where_the_listener_lets_them() -> None:
    assert is_plain(planned_listener({"headers_with_underscores": "pass"}), "host: a", "x_a: b")
