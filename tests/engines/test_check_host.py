"""The engines' checkers judge the files, and not the host: addresses that it lacks, ports that are taken, low ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

import lbgen
from lbgen.engines.api import local_engines
from lbgen.runtime.common import ports
from lbgen.runtime.local.check import check
from tests.support.engine_lists import L7_ENGINES, need_binary
from tests.support.sample import sample

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("check_host")]
ABSENT, ABSENT_6 = "203.0.113.9", "2001:db8::9"  # of networks for documentation


def plan(address: str, port: int, *, l4: bool, udp: bool = False):
    mode = {"mode": "l4"} if l4 else {}
    listeners = {"web": {"port": port, "address": address, **mode}}
    routes = [{"name": "all", "forward": "app", **({"listeners": ["web"]} if l4 else {})}]
    if udp:
        listeners["dns"] = {"port": port, "address": address, "protocol": "udp", **mode}
        routes.append({"name": "dns", "forward": "app", "listeners": ["dns"]})
    return lbgen.plan(
        lbgen.load(
            {
                "version": 1,
                "name": "host",
                "profile": "minimal",
                "listeners": listeners,
                "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
                "routes": routes,
            }
        )
    )


@pytest.fixture
def taken():
    """A port of 127.0.0.1 that others have, for TCP and UDP."""
    port = ports.free_port(start=24_000)
    with ExitStack() as held:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            made = held.enter_context(socket.socket(socket.AF_INET, kind))
            made.bind(("127.0.0.1", port))
            if kind is socket.SOCK_STREAM:
                made.listen(1)
        yield port


@pytest.mark.parametrize("name", sample(L7_ENGINES, ("haproxy", "nginx")))
@pytest.mark.parametrize("where", [(ABSENT, 8090), (ABSENT_6, 8090), ("127.0.0.1", 80), ("127.0.0.1", 0)], ids=str)
def test_what_the_host_cannot_bind_is_no_problem_of_the_file(name, where, taken):
    need_binary(name)
    address, port = where
    l4 = plan(address, port or taken, l4=True, udp=name != "haproxy")
    for each in (plan(address, port or taken, l4=False), l4):
        assert check(each, name, accept=("all",)) == ()


@pytest.mark.parametrize("name", sorted(set(local_engines()) - set(L7_ENGINES)))
def test_a_kernel_engine_checks_rules_for_an_address_that_the_host_lacks(name):
    need_binary(name)
    assert check(plan(ABSENT, 80, l4=True), name, accept=("all",)) == ()
