"""nginx: L4 rules as a map, in the order in which they are tried."""

from __future__ import annotations

import re

import pytest

import lbgen
from lbgen.engines.nginx.l4 import build_stream
from lbgen.plan.resolve import plan
from lbgen.plan.simulate import simulate_l4

TOPOLOGY = {
    "version": 1,
    "name": "t",
    "listeners": {"edge": {"port": 9443, "mode": "l4", "tls": {"mode": "passthrough"}}},
    "pools": {name: {"endpoints": [{"address": f"10.0.0.{n}:443"}]} for n, name in enumerate("abcd", 1)},
    "routes": [
        {"name": "ra", "listeners": ["edge"], "hosts": ["a.example"], "forward": "a"},
        {"name": "rb", "listeners": ["edge"], "hosts": ["*.example"], "sources": ["10.0.0.0/8"], "forward": "b"},
        {"name": "rc", "listeners": ["edge"], "hosts": ["*.a.example"], "forward": "c"},
        {"name": "rd", "listeners": ["edge"], "sources": ["10.1.0.0/16"], "forward": "d"},
    ],
}


@pytest.mark.parametrize("source", ["10.0.0.1", "10.1.0.1", "192.0.2.1"])
@pytest.mark.parametrize("name", ["a.example", "A.Example.", "b.example", "x.a.example", "example", "", "xa.example"])
def test_the_map_chooses_as_the_oracle(name, source):
    made = plan(lbgen.load(TOPOLOGY))
    block = build_stream(made, list(made.listeners), made.pools)
    (choice,) = block.defined.maps
    sources = [each for rule in made.listeners[0].l4_rules for each in rule.sources]
    assert [n.network.text for geo in block.defined.geos for n in geo.networks] == list(dict.fromkeys(sources))
    inside = [source.startswith(geo.networks[0].network.text.partition(".0")[0] + ".") for geo in block.defined.geos]
    key = f"{name}\n" + "".join(f"{int(each)}\n" for each in inside)
    found = next((e.value.text for e in choice.entries if re.search(e.key.text, key)), "nobody~")
    wanted = simulate_l4(made, "edge", name or None, source)
    assert found == (wanted.pools[0][0] if wanted.pools else "nobody~")


def test_what_is_set_for_a_port_must_be_one():
    data = TOPOLOGY | {"routes": [*TOPOLOGY["routes"][:3], TOPOLOGY["routes"][3] | {"timeouts": {"idle": "1s"}}]}
    with pytest.raises(lbgen.LbgenError, match="per port; give all routes"):
        lbgen.render(lbgen.load(data), engine="nginx", accept=("all",))


def test_access_is_asked_in_its_order():
    edge = TOPOLOGY["listeners"]["edge"] | {"access": {"deny": ["10.9.0.0/16"], "allow": ["10.0.0.0/8"]}}
    text = lbgen.render(lbgen.load(TOPOLOGY | {"listeners": {"edge": edge}}), engine="nginx", accept=("all",))
    assert "deny 10.9.0.0/16;\n        allow 10.0.0.0/8;\n        deny all;" in text["nginx.conf"]
