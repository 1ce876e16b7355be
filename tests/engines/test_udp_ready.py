"""`up --no-backends` returns once the socket for datagrams is bound: no request could tell."""

from __future__ import annotations

import os
import socket
import time
from itertools import product

import pytest

import lbgen
from lbgen.runtime.common.ports import free_port, is_bound_for_udp
from tests.support.engine_lists import need_binary
from tests.support.sample import sample

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("udp_ready")]
ENGINES = ("envoy", "nginx", "traefik")  # HAProxy refuses UDP, and rules in the kernel bind no socket

ADDRESSES = ("127.0.0.1", "0.0.0.0", "::")  # noqa: S104


def dns(name: str, port: int, address: str = "127.0.0.1") -> lbgen.Topology:
    """A stack whose only listener takes datagrams."""
    return lbgen.load(
        {
            "version": 1,
            "name": name,
            "listeners": {"dns": {"port": port, "address": address, "mode": "l4", "protocol": "udp"}},
            "pools": {"app": {"endpoints": [{"address": "10.0.0.1:53"}]}},
            "routes": [{"name": "dns", "listeners": ["dns"], "forward": "app"}],
        }
    )


def start_here(name, tmp_path, monkeypatch):
    """Skip without the engine; else keep stacks in a folder of the test and look at no daemon."""
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    need_binary(name)


@pytest.mark.parametrize(
    ("name", "address"), sample(product(ENGINES, ADDRESSES), [*product(("nginx",), ADDRESSES), ("envoy", "::")])
)
def test_up_returns_when_the_port_is_bound(name, address, tmp_path, monkeypatch):
    start_here(name, tmp_path, monkeypatch)
    port = free_port(start=23_500)
    with lbgen.up(dns("udp", port, address), engine=name, runtime="local", backends=False, accept=("all",)):
        with (
            socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as other,
            pytest.raises(OSError, match="in use"),
        ):
            other.bind((address, port))
        assert is_bound_for_udp(address, port)
    assert not is_bound_for_udp(address, port)


@pytest.mark.parametrize("name", sample([*ENGINES, "nftables"], ("traefik", "nftables")))
def test_stand_ins_answer_datagrams(name, tmp_path, monkeypatch):
    start_here(name, tmp_path, monkeypatch)
    if name == "nftables" and os.geteuid() != 0:
        pytest.skip("needs root")
    port = free_port(start=23_600)
    topology = dns("answers", port)
    with lbgen.up(topology, engine=name, runtime="local", accept=("all",)) as stack:
        assert not [each.message for each in stack.warnings if each.code == "LB405"]
        address = stack.address("dns")
        assert answer(address.host, address.port) == "pools.app.endpoints[0]/udp: hello"
        lbgen.reload(more(topology))
        # A probe takes the answer of either endpoint, so a reload may end before Traefik has read its files.
        endpoints, until = set[str](), time.monotonic() + 3
        while len(endpoints) < 2 and time.monotonic() < until:
            endpoints.add(answer(address.host, address.port))
        assert endpoints == {f"pools.app.endpoints[{place}]/udp: hello" for place in (0, 1)}


def answer(host: str, port: int) -> str:
    """What comes back for a datagram from a new port; without what tells the addresses of an endpoint apart."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(3)
        client.sendto(b"hello", (host, port))
        name, _, echo = client.recv(100).decode().partition(": ")
    return f"{name.partition('@')[0]}: {echo}"


def more(topology: lbgen.Topology) -> lbgen.Topology:
    """The same with a second endpoint."""
    data = topology.model.model_dump(exclude_unset=True, mode="json")
    data["pools"]["app"]["endpoints"].append({"address": "10.0.0.2:53"})
    return lbgen.load(data)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "::"])  # noqa: S104
def test_what_the_kernel_lists(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind((address, 0))
        port = held.getsockname()[1]
        assert is_bound_for_udp(address, port)
        if address not in ("0.0.0.0", "::"):  # noqa: S104
            assert not is_bound_for_udp("127.0.0.9", port)
    assert not is_bound_for_udp(address, port)
