"""nginx: requests that wait for a place, and what that does not go with."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.diagnostics import LbgenError
from tests.support.nginx import with_includes

POOL = {
    "endpoints": [{"address": "10.0.0.1:80"}],
    "connections": {"max_per_endpoint": 2, "queue": {"size": 7, "timeout": "1500ms"}},
}


def conf(route: dict, **pools: dict) -> str:
    """What nginx gets for one route and the pool `p`."""
    topology = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "accept": ["all"],
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": POOL, **pools},
        "routes": [{"name": "r", **route}],
    }
    return with_includes(lbgen.render(lbgen.load(topology), engine="nginx"))


def test_who_finds_no_place_goes_where_requests_wait():
    found = conf({"forward": "p"})
    assert "js_shared_dict_zone zone=queue-p:65k timeout=1h type=number;" in found
    assert 'set $queue_line "queue-p 7 1500";' in found
    waiting = found[found.index("location @r:queue {") :]
    assert "js_access queue.wait;" in waiting[: waiting.index("}")]


def test_without_places_there_is_nothing_to_wait_for():
    unlimited = {**POOL, "connections": {"queue": {"size": 7, "timeout": "1s"}}}
    assert "queue" not in conf({"forward": "p"}, p=unlimited)


@pytest.mark.parametrize(
    ("route", "what"),
    [
        ({"forward": "p", "retries": {"max": 1, "on": ["reset"]}}, "retries of r"),
        ({"forward": [{"pool": "p", "weight": 1}, {"pool": "q", "weight": 1}]}, "the split of r"),
    ],
)
def test_what_does_not_go_with_waiting_is_refused(route, what):
    with pytest.raises(LbgenError, match=f"cannot combine a queue with {what}"):
        conf(route, q={"endpoints": [{"address": "10.0.0.2:80"}]})
