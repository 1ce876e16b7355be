"""The same load on every engine in a container is counted the same. Needs a docker daemon."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.runtime.common.ports import free_port
from tests.support import metrics_load as load
from tests.support.daemon import IN_CONTAINERS, first_port, name_of

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("metrics")
PORTS = first_port(1_600)
L7 = ("nginx", "haproxy", "envoy", "traefik")
ROUNDS = 20


@pytest.mark.drill
def test_all_engines_in_containers_count_the_same() -> None:
    port = free_port("127.0.0.1", PORTS)
    topology = lbgen.load(load.topology(NAME, port, free_port("127.0.0.1", port + 50)))
    stack = lbgen.up(topology, L7, runtime="docker", accept=("all",), seconds=120)  # four agents begin at once
    urls = {engine["name"]: engine["metrics"] for engine in stack.as_dict()["engines"]}
    assert sorted(urls) == sorted(L7)
    for engine, url in urls.items():
        before = load.settled(url)
        address = stack.address("web", engine)
        load.send(address.host, address.port, ROUNDS)
        after = load.settled(url)
        counted = load.difference(after, before)
        assert +load.requests(counted) == load.expected(ROUNDS), engine
        assert after["lbgen_unread_log_lines_total",] == 0, engine
        for name, route, requests in (("request", "api", 9), ("request", "gone", 1), ("upstream", "slow", 1)):
            found = sum(load.in_buckets(counted, f"lbgen_{name}_duration_seconds", route))
            assert found == requests * ROUNDS, (engine, name, route)
