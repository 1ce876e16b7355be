"""Random topologies of direct forwarding in the kernel: rules that are changed, and all rules loaded over others, are
those that would be loaded alone; nft lists them. tests/engines/test_nftables_direct.py tests what they forward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lbgen.engines.nftables import ENGINE
from lbgen.runtime.local.network import Network, network
from tests.engines.test_direct_changes import TABLE, files, listed, load, nft
from tests.engines.test_nftables import needs_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = ("10.98.0.0/24", "10.98.1.0/24", "10.98.2.7/32")


@st.composite
def topologies(draw: st.DrawFn, device: str | None) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(("web", "db", "dns", "mail")), min_size=1, max_size=3, unique=True))
    some = st.lists(st.sampled_from(SOURCES), min_size=1, max_size=2, unique=True)
    listeners, pools, routes = {}, {}, []
    for number, name in enumerate(names):
        protocol = draw(st.sampled_from(("tcp", "tcp", "udp")))
        listeners[name] = {"port": 80 + number, "mode": "l4", "protocol": protocol, "address": "10.77.2.100"}
        if draw(st.booleans()):
            listeners[name]["access"] = {draw(st.sampled_from(("allow", "deny"))): draw(some)}
        for place, source in enumerate(draw(st.sampled_from(((None,), (SOURCES[0], None), (SOURCES[0],))))):
            pool = f"{name}{place}"
            count = draw(st.integers(1, 3))
            ends = [
                {"address": f"10.77.2.{11 + at}:{8000 + 10 * number + place}", "weight": draw(st.integers(1, 3))}
                for at in range(count)
            ]
            pools[pool] = {
                "endpoints": ends,
                "balance": draw(st.sampled_from(("round_robin", "random", "source_hash"))),
                "health": {"active": {"interval": "60s", "port": 9000}},
            }
            route = {"name": pool, "listeners": [name], "forward": pool}
            routes.append(route if source is None else {**route, "sources": [source]})
    direct = {"forwarding": "direct"} if device is None else {"forwarding": "direct", "device": device}
    return {
        "version": 1,
        "name": "changing",
        "engines": {"nftables": direct},
        "listeners": listeners,
        "pools": pools,
        "routes": routes,
    }


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network() as made:
        yield made


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_rules_become_those_of_the_other_topology(net: Network, tmp_path: Path, data: st.DataObject) -> None:
    device = data.draw(st.sampled_from((None, "lb0")))
    old, new = (files(data.draw(topologies(device))) for _ in range(2))
    nft(net, tmp_path, "flush", "ruleset")
    load(net, tmp_path, new, "lbgen.nft")
    wanted = listed(net, tmp_path)
    for whole in (False, True):
        nft(net, tmp_path, "flush", "ruleset")
        load(net, tmp_path, old, "lbgen.nft")
        if whole:
            load(net, tmp_path, new, "lbgen.nft")
        text = ENGINE.leftovers(old, new) if whole else ENGINE.change(old, new)
        if text or not whole:
            load(net, tmp_path, {**new, "change.nft": text}, "change.nft")
        assert listed(net, tmp_path) == wanted
        assert TABLE in nft(net, tmp_path, "list", "ruleset")
