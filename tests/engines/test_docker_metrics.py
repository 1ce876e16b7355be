"""Metrics of engines in containers: counts as locally, on the published port. Skipped without a daemon."""

from __future__ import annotations

import pytest

import lbgen
from lbgen import api
from lbgen.runtime.common.ports import free_port
from tests.support import metrics_load as load
from tests.support.daemon import IN_CONTAINERS, first_port, name_of

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("metrics")
PORTS = first_port(250)
L7 = ("nginx", "haproxy", "envoy", "traefik")
ROUNDS = 10


@pytest.mark.parametrize("more", [{}, {"guarantees": "engine"}], ids=["contract", "native"])
def test_all_engines_in_containers_count_the_same(more: dict[str, str]) -> None:
    port = free_port("127.0.0.1", PORTS)
    data = load.topology(NAME, port, free_port("127.0.0.1", PORTS + 40), access_log="json", **more)
    stack = lbgen.up(data, L7, runtime="docker", accept=("all",))
    for engine in stack.as_dict()["engines"]:
        name, url = engine["name"], engine["metrics"]
        before = load.settled(url)
        address = stack.address("web", name)
        load.send(address.host, address.port, ROUNDS)
        after = load.settled(url)
        counted = load.difference(after, before)
        assert +load.requests(counted) == load.expected(ROUNDS), name
        assert after["lbgen_unread_log_lines_total",] == 0, name
        logged = [line for line in api.requests(NAME, name) if line.record is not None]
        assert all(line.source == name for line in logged)
        assert len(logged) >= ROUNDS * load.IN_ROUND, name
