"""Headers that no request keeps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lbgen.engines.haproxy.headers import dropped_names
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.plans import topology

if TYPE_CHECKING:
    from lbgen.plan.model import Listener

CLAIMS = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-request-id"]


def planned_listener(listener: dict | None = None, **fields: object) -> Listener:
    return plan(load(topology(listener=listener, **fields))).listeners[0]


def is_dropped(listener: Listener, name: str) -> bool:
    return re.search(dropped_names(listener), name) is not None


@pytest.mark.parametrize("name", ["te", "trailer", "keep-alive", "proxy-connection", "http2-settings", "x_a"])
def test_fields_of_one_connection_and_with_underscores_go(name: str) -> None:
    assert is_dropped(planned_listener(), name)


def test_other_fields_stay() -> None:
    for name in ("host", "x-a", "cookie", "forwarded", "x-forwarded", "connection", "transfer-encoding", "expect"):
        assert not is_dropped(planned_listener(), name), name
    assert not is_dropped(planned_listener({"headers_with_underscores": "pass"}), "x_a")


def test_what_strangers_say_about_themselves_goes_whether_it_is_replaced_or_not() -> None:
    for listener in (planned_listener(), planned_listener(forwarded_headers=False, request_id=False)):
        assert all(is_dropped(listener, name) for name in CLAIMS)


def test_proxies_that_are_trusted_may_say_it() -> None:
    for fields in ({}, {"forwarded_headers": False, "request_id": False}):
        listener = planned_listener({"trusted_proxies": ["10.0.0.0/8"]}, **fields)
        assert not any(is_dropped(listener, name) for name in CLAIMS)
