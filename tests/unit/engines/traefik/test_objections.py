"""Limits whose counts Traefik does not share as the contract asks."""

from __future__ import annotations

from typing import Any

import pytest

from lbgen.engines.traefik import ENGINE
from tests.unit.engines.traefik.test_routers import plan_of, routers_of

RATE = {"rate_limit": {"rate": "6/m", "burst": 4, "key": "route"}}
AT_ONCE = {"concurrency": {"max": 2, "key": "client_ip"}}
TWO = {"listeners": {"web": {"port": 8080}, "two": {"port": 8081}}}


def prefixes(*paths: str) -> list[dict[str, Any]]:
    return [{"path": {"prefix": path}} for path in paths]


@pytest.mark.parametrize("limit", [RATE, AT_ONCE])
@pytest.mark.parametrize(
    ("route", "more", "is_shared"),
    [
        ({"match": prefixes("/a")}, {}, True),
        ({"match": prefixes("/a")}, TWO, True),  # both listeners have the same routers
        ({"match": prefixes("/a"), "hosts": ["a.example", "b.example"]}, {}, True),  # one router for both hosts
        ({"match": prefixes("/a", "/b")}, {}, False),
        (
            {"match": prefixes("/a")},
            {"listeners": {**TWO["listeners"], "two": {"port": 8081, "access": {"deny": ["10.0.0.0/8"]}}}},
            False,
        ),
    ],
    ids=["one match", "two listeners", "two hosts", "two matches", "listeners with other access"],
)
def test_separate_counts_of_routers_are_named(
    limit: dict[str, Any], route: dict[str, Any], more: dict[str, Any], is_shared: bool
) -> None:
    plan = plan_of([{"name": "r", "forward": "app", **route, **limit}], **more)
    found = [x for x in ENGINE.objections(plan, "3.7") if "has its own count" in x.verdict.note]
    assert [x.field for x in found] == ([] if is_shared else [f"routes[0].{next(iter(limit))}"])
    limited = [
        each for each in routers_of(plan).values() if {"r-rate", "r-concurrency"} & set(each.get("middlewares", ()))
    ]
    assert (len(limited) == 1) is is_shared


def test_without_a_limit_nothing_is_counted() -> None:
    plan = plan_of([{"name": "r", "forward": "app", "match": prefixes("/a", "/b")}])
    assert not [x for x in ENGINE.objections(plan, "3.7") if "has its own count" in x.verdict.note]
