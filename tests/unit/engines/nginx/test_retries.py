"""nginx: the order in which further tries go round the endpoints."""

from __future__ import annotations

import re

from lbgen.engines.nginx.names import Names
from lbgen.engines.nginx.retries import MAX_RETRIES, RetryChains, ring
from lbgen.plan.model import Balance, Endpoint, Pool
from tests.support.nginx import with_includes


def pool(*kinds: str) -> Pool:
    """One endpoint for each of `kinds`: usual, backup or drained."""
    ends = tuple(
        Endpoint(f"10.0.0.{n}", 80, int(kind != "drained"), f"pools.p.endpoints[{n}]", True, kind == "backup")
        for n, kind in enumerate(kinds)
    )
    return Pool("p", Balance.ROUND_ROBIN, ends, "pools.p")


def walk(made: Pool, first: int, tries: int) -> list[int]:
    """The endpoints asked one after the other, as the map says."""
    retries = RetryChains(Names(), {"p": made}, filters=True)
    retries._ring_variable(made)
    steps = retries.maps[0].entries
    asked = [first]
    for count in range(1, tries):
        key = f"{count} {made.endpoints[asked[-1]].authority}"
        to = next(e.value.text for e in steps if re.search(e.key.text, key))
        asked.append(int(to.removeprefix("p~")))
    return asked


def test_every_endpoint_is_asked_before_one_is_asked_again():
    assert walk(pool("usual", "usual", "usual"), 1, 7) == [1, 2, 0, 1, 2, 0, 1]


def test_a_drained_endpoint_is_not_asked():
    assert walk(pool("usual", "drained", "usual"), 0, 4) == [0, 2, 0, 2]


def test_backups_come_when_all_others_were_asked():
    made = pool("usual", "backup", "usual", "backup")
    for first in (0, 2):
        assert walk(made, first, 8) == [first, 2 - first, 1, 3, 0, 2, 1, 3]
    assert MAX_RETRIES >= 7


def test_one_endpoint_needs_no_ring():
    assert ring(pool("usual")) == ()
    assert ring(pool("usual", "drained")) == ()


def test_places_with_error_pages_of_their_own_keep_those_for_broken_requests():
    """nginx inherits all error pages or none."""
    import lbgen

    topology = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "forward": "p", "retries": {"max": 2, "on": ["reset", 502, 504]}}],
    }
    text = with_includes(lbgen.render(lbgen.load(topology), engine="nginx", accept=("all",)))
    places = [part.partition("        }")[0] for part in text.split("        location ")[1:]]
    own = [place for place in places if "error_page 502 503 504 =" in place or "error_page 502 504 =" in place]
    usual = [place for place in own if "proxy_pass_request_headers off" not in place]
    assert len(usual) == 7  # three tries, two for other methods too, long bodies, those without a length
    assert all("error_page 400 /../refused;" in place for place in own)
