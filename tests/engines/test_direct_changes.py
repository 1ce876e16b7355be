"""Direct forwarding: changes in one transaction that open flows survive, fragments of datagrams, IPv6 on nft 1.1."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.api import engine
from lbgen.engines.nftables import ENGINE
from lbgen.runtime.common.executables import find
from lbgen.runtime.local.network import network
from lbgen.runtime.local.spawn import User, spawn
from tests.engines.test_nftables import needs_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.runtime.local.network import Network

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/direct-routing"))
import lab  # type: ignore[import-not-found]

pytestmark = [needs_kernel, pytest.mark.engines, pytest.mark.root, pytest.mark.xdist_group("runtime")]
TABLE = "lb_changing_direct"
CLIENT = """
import json, socket, sys
kind, host, port, sizes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
found = []
for size in sizes:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as client:
        client.settimeout(2)
        try:
            client.connect((host, port))
            client.send(b"x" * (size - 1) + b"\\n")
            name, _, rest = client.recv(65535).partition(b" ")
            found.append(name.decode() if len(rest) == size else "part")
        except OSError:
            found.append("")
print(json.dumps(found))
"""


def data(**edits: Any) -> dict[str, Any]:
    """Two services over TCP and one over UDP."""
    health = {"active": {"interval": "60s"}}
    return {
        "version": 1,
        "name": "changing",
        "engines": {"nftables": {"forwarding": "direct", **edits.pop("nftables", {})}},
        "listeners": {
            "web": {"port": 80, "mode": "l4", "address": "10.77.2.100"},
            "db": {"port": 5432, "mode": "l4", "address": "10.77.2.100"},
            "dns": {"port": 53, "mode": "l4", "protocol": "udp", "address": "10.77.2.100"},
        },
        "pools": {
            "web": {"endpoints": [{"address": f"10.77.2.{n}:80"} for n in (11, 12, 13)], "health": health},
            "db": {"endpoints": [{"address": f"10.77.2.{n}:5432"} for n in (11, 12)]},
            "dns": {"endpoints": [{"address": f"10.77.2.{n}:53"} for n in (11, 12)]},
        },
        "routes": [{"name": name, "listeners": [name], "forward": name} for name in ("web", "db", "dns")],
        **edits,
    }


def changed() -> Iterator[tuple[str, dict[str, Any]]]:
    less = data()
    less["pools"]["web"]["endpoints"].pop()
    yield "an endpoint less", less
    weights = data()
    weights["pools"]["web"]["endpoints"][0]["weight"] = 3
    yield "other weights", weights
    moved = data()
    moved["pools"]["web"]["endpoints"][1]["address"] = "10.77.2.12:8080"
    moved["listeners"]["db"]["port"] = 5433
    yield "other ports", moved
    fewer = data()
    del fewer["listeners"]["dns"], fewer["pools"]["dns"], fewer["routes"][2]
    yield "a service less, and no datagrams", fewer
    checked = data()
    checked["routes"][0]["timeouts"] = {"idle": "77s"}
    checked["routes"][1]["access"] = {"allow": ["10.0.0.0/8"]}
    yield "other times and clients", checked
    hashed = data()
    hashed["pools"]["db"]["balance"] = "source_hash"
    yield "other balance", hashed


CHANGES = dict(changed())


def files(topology: dict[str, Any]) -> dict[str, str]:
    return {file.name: file.text for file in ENGINE.render(lbgen.plan(lbgen.load(topology)), "1.0")}


def nft(net: Network, folder: Path, *words: str) -> str:
    asked = spawn(("nft", *words), user=User(), directory=folder, output=-1, netns=net.holder.pid)
    said, _ = asked.communicate(timeout=20)
    assert asked.returncode == 0, (words, said.decode())
    return str(said.decode())


def load(net: Network, folder: Path, texts: dict[str, str], name: str) -> None:
    for file, text in texts.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    nft(net, folder, "-f", name)


def listed(net: Network, folder: Path) -> dict[str, Any]:
    """What the kernel has, by kind and name, but for flows."""
    assert TABLE in nft(net, folder, "list", "ruleset")
    found: dict[str, Any] = {}
    said = nft(net, folder, "-j", "list", "ruleset").splitlines()
    [listing] = [line for line in said if line.startswith("{")]  # nft 1.0.6 warns of statements that JSON has not
    for each in json.loads(listing)["nftables"]:
        [(kind, what)] = each.items()
        what = {key: value for key, value in what.items() if key not in ("handle", "index")}
        if what.get("name", "").endswith("/flows"):
            what.pop("elem", None)
        if "elem" in what:
            what["elem"] = sorted(map(json.dumps, what["elem"]))
        key = " ".join((kind, what.get("family", ""), what.get("chain", what.get("name", ""))))
        found.setdefault(key, []).append(json.dumps(what, sort_keys=True))
    return found


@pytest.mark.parametrize("device", [None, "lb0"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_one_transaction_which_flows_survive(what: str, device: str | None, tmp_path: Path) -> None:
    after = CHANGES[what]
    own = {} if device is None else {"nftables": {"device": device}}
    after["engines"] = data(**own)["engines"]
    old, new = files(data(**own)), files(after)
    text = ENGINE.change(old, new)
    assert text
    family = "ip" if device is None else "netdev"
    flow = "10.77.1.2 . 4444"
    with network() as net:
        load(net, tmp_path, old, "lbgen.nft")
        nft(net, tmp_path, f"add element {family} {TABLE} lb_db/tcp/ip/flows {{ {flow} timeout 60s : 7 }}")
        load(net, tmp_path, {**new, "change.nft": text}, "change.nft")
        assert flow in nft(net, tmp_path, "list", "map", family, TABLE, "lb_db/tcp/ip/flows")
        found = listed(net, tmp_path)
        if old["lbgen.nft"] != new["lbgen.nft"]:  # else there are the rules that the change is of
            asked = spawn(("nft", "-f", "change.nft"), user=User(), directory=tmp_path, output=-1, netns=net.holder.pid)
            assert b"Could not process rule" in asked.communicate(timeout=20)[0]
            assert listed(net, tmp_path) == found
        load(net, tmp_path, new, "lbgen.nft")  # all rules again: the mark is that of the new ones alone
        assert listed(net, tmp_path)[f"set {family} lb_rules"] == found[f"set {family} lb_rules"]
        nft(net, tmp_path, "delete", "table", family, TABLE)
        load(net, tmp_path, new, "lbgen.nft")
        assert found == listed(net, tmp_path)


OWN = "chain own {\n\t\ttype filter hook input priority 10; policy accept;\n\t}"


@pytest.mark.parametrize("what", ["a service less, and no datagrams", "other ports", "other balance"])
@pytest.mark.parametrize("text", [None, OWN], ids=["ours", "with own text"])
def test_all_rules_leave_nothing_of_a_removed_service(what: str, text: str | None, tmp_path: Path) -> None:
    """Where all have to be loaded: after a failure, and where the topology has rules of its own."""
    before = data(nftables={} if text is None else {"table": text})
    old, new = files(before), files({**CHANGES[what], "engines": before["engines"]})
    assert bool(ENGINE.change(old, new)) is (text is None)
    with network() as net:
        load(net, tmp_path, new, "lbgen.nft")
        alone = listed(net, tmp_path)
        nft(net, tmp_path, "flush", "ruleset")
        load(net, tmp_path, old, "lbgen.nft")
        load(net, tmp_path, new, "lbgen.nft")
        assert listed(net, tmp_path).keys() > alone.keys()
        for _ in range(2):  # also where they are not there
            load(net, tmp_path, {**new, "change.nft": ENGINE.leftovers(old, new)}, "change.nft")
            assert listed(net, tmp_path) == alone
    assert ENGINE.leftovers(new, new) == ""


def ask(kind: str, host: str, port: int, sizes: list[int]) -> list[str]:
    """Who answers with all that was sent, by size; "" for nobody."""
    number = {"tcp": 1, "udp": 2}[kind]
    said = lab.inside("client", sys.executable, "-c", CLIENT, str(number), host, str(port), json.dumps(sizes))
    return list(json.loads(said))


@pytest.mark.parametrize("form", ["L3", "L2"])
def test_datagrams_of_several_fragments_pass_where_the_kernel_puts_them_together(form: str, tmp_path: Path) -> None:
    topology = lbgen.load(lab.HERE.parent / "topology.yaml").model.model_dump(exclude_unset=True, mode="json")
    del topology["pools"]["web"]["health"]
    topology["engines"] = {"nftables": {"forwarding": "direct", **lab.FORMS[form]}}
    loaded = lbgen.load(topology)
    if form == "L2":
        with pytest.raises(LbgenError, match="datagrams that do not fit into one packet are lost"):
            lbgen.render(loaded, engine="nftables")
    with ExitStack() as stack:
        lab.build(stack, form)
        for name in lab.ENDS:
            lab.start(stack, name, sys.executable, str(lab.HERE), "serve", name)
        lab.load(loaded, tmp_path)
        end = time.monotonic() + 20
        while not all(ask("udp", lab.SERVICE, 7, [10, 10])):
            assert time.monotonic() < end
        sizes = [1400, 1400, 3000, 3000, 60_000, 60_000]
        found = ask("udp", lab.SERVICE, 7, sizes)
        assert set(found[:2]) == {"end1", "end2"}
        assert set(found[2:]) == ({"end1", "end2"} if form == "L3" else {""})


def test_ipv6_on_a_newer_nft(tmp_path: Path) -> None:
    try:
        newer, _ = find(engine("nftables"), "1.1")
    except EngineError as missing:
        pytest.skip(str(missing))
    service = "fd77:2::100"
    ends = {"end1": "fd77:2::11", "end2": "fd77:2::12"}
    topology = data(
        listeners={
            "web": {"port": 80, "mode": "l4", "address": service},
            "echo": {"port": 7, "mode": "l4", "protocol": "udp", "address": service},
        },
        pools={
            "web": {"endpoints": [{"address": f"[{x}]:8000"} for x in ends.values()]},
            "echo": {"endpoints": [{"address": f"[{x}]:7000"} for x in ends.values()]},
        },
        routes=[{"name": name, "listeners": [name], "forward": name} for name in ("web", "echo")],
    )
    with pytest.raises(LbgenError, match=r"nft 1\.0 cannot keep IPv6 flows in a map, nft 1\.1 can"):
        lbgen.render(lbgen.load(topology), engine="nftables", accept=("all",))
    topology["engines"]["nftables"]["version"] = "1.1"
    with ExitStack() as stack:
        lab.build(stack, "L3")
        for name, address in {"client": "fd77:1::2", "balancer": "fd77:2::4", **ends}.items():
            lab.inside(name, "ip", "address", "add", f"{address}/64", "dev", "eth0", "nodad")
        lab.inside("router", "ip", "address", "add", "fd77:1::1/64", "dev", "client", "nodad")
        lab.inside("router", "ip", "address", "add", "fd77:2::1/64", "dev", "br0", "nodad")
        lab.inside("balancer", "ip", "address", "add", f"{service}/128", "dev", "eth0", "nodad")
        for name in ("client", "balancer", *ends):
            gateway = "fd77:1::1" if name == "client" else "fd77:2::1"
            lab.inside(name, "ip", "-6", "route", "add", "default", "via", gateway)
        for name in ("router", "balancer"):
            lab.inside(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        for name in ends:
            lab.start(stack, name, sys.executable, "-c", SERVER, name)
        lbgen.render(lbgen.load(topology), engine="nftables", accept=("all",)).write(tmp_path)
        lab.inside("balancer", str(newer.path), "-f", "lbgen.nft", folder=tmp_path)
        for name, address in ends.items():
            lab.inside(name, str(newer.path), "-f", str(tmp_path / f"direct/{address}.nft"))
        hook = 'type filter hook ingress device "eth0" priority -400'
        counted = f"ip6 saddr {{ {service}, {', '.join(ends.values())} }} ip6 daddr fd77:1::2 counter"
        replies = f"table netdev lab {{ chain in {{ {hook}; {counted}; }}; }}"
        lab.inside("balancer", str(newer.path), "-f", "-", text=replies)
        end = time.monotonic() + 20
        while not all((*ask("udp", service, 7, [10, 10]), *ask("tcp", service, 80, [10, 10]))):
            assert time.monotonic() < end
        assert sorted(ask("tcp", service, 80, [100] * 20)) == ["end1"] * 10 + ["end2"] * 10
        assert sorted(ask("udp", service, 7, [100, 4000] * 10)) == ["end1"] * 10 + ["end2"] * 10
        assert "counter packets 0 bytes 0" in lab.inside("balancer", str(newer.path), "list", "table", "netdev", "lab")
        assert "fd77:1::2 . " in lab.inside("balancer", str(newer.path), "list", "ruleset")


SERVER = """
import socket, socketserver, sys, threading
name = sys.argv[1].encode() + b" "
class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(name + self.request[0], self.client_address)
class Tcp(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(name + line)
class V6:
    address_family = socket.AF_INET6
    max_packet_size = 65535
class A(V6, socketserver.UDPServer): pass
class B(V6, socketserver.ThreadingTCPServer): pass
threading.Thread(target=A(("::", 7000), Udp).serve_forever).start()
B(("::", 8000), Tcp).serve_forever()
"""
