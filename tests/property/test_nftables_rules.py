"""Random L4 topologies in the kernel: rules that are changed are those that would be loaded, and each connection gets
an endpoint of the oracle, in its share."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count, product
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lbgen
from lbgen.engines.api import engine
from lbgen.engines.nftables import ENGINE
from lbgen.plan.model import Balance, Forward, Plan, Protocol
from lbgen.plan.simulate import simulate_l4
from lbgen.runtime.local.network import Network, ip, network
from lbgen.runtime.local.spawn import User, spawn
from tests.engines.test_nftables import needs_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT, FIRST, ENDS = 24_500, 24_510, 5
CLIENTS = {4: ("10.98.0.1", "10.98.0.2", "10.98.1.1"), 6: ("fd98::1", "fd98::2", "fd98:1::1")}
NETWORKS = {4: ("10.98.0.0/24", "10.98.0.2/32", "10.98.1.0/24"), 6: ("fd98::/64", "fd98::2/128", "fd98:1::/64")}
INSIDE = {4: "10.98.9.9", 6: "fd98:9::9"}
ANY = {4: "0.0.0.0", 6: "::"}  # noqa: S104 - in a namespace
TIMES = 12  # connections of each client
SECONDS = 0.1  # for an answer that must not come
_PORTS = count(30_000)  # of clients: a flow over UDP stays with its endpoint for a while


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from((4, 4, 6)))
    some = st.lists(st.sampled_from(NETWORKS[kind]), min_size=1, max_size=2, unique=True)
    access = st.none() | st.fixed_dictionaries({"allow": some}) | st.fixed_dictionaries({"deny": some})
    balance = draw(st.sampled_from(("round_robin", "random", "source_hash")))
    pools = {}
    for name in ("a", "b"):
        ports = draw(st.lists(st.integers(0, ENDS - 1), min_size=1, max_size=4, unique=True))
        weights = [draw(st.integers(1, 3)), *(draw(st.integers(0, 3)) for _ in ports[1:])]
        ends = [
            {"address": address(CLIENTS[kind][0], FIRST + at), "weight": w}
            for at, w in zip(ports, weights, strict=True)
        ]
        pools[name] = {"endpoints": ends, "balance": balance}
        if draw(st.booleans()):
            pools[name]["health"] = {"active": {"interval": "60s", "port": FIRST}}
            if len(ends) > 1 and draw(st.booleans()):
                ends[-1] |= {"backup": True, "weight": 1}
    listeners: dict[str, Any] = {}
    routes = []
    for number in range(draw(st.integers(1, 2))):
        name = f"l{number}"
        protocol = draw(st.sampled_from(("tcp", "tcp", "udp")))
        where = draw(st.sampled_from((INSIDE[kind], ANY[kind])))
        listeners[name] = {"port": PORT + number, "mode": "l4", "protocol": protocol, "address": where}
        if (found := draw(access)) is not None:
            listeners[name]["access"] = found
        if protocol == "tcp" and draw(st.booleans()):
            listeners[name]["max_connections"] = 1000
        sources = draw(st.lists(st.sampled_from((None, *NETWORKS[kind])), min_size=1, max_size=3, unique=True))
        for index, source in enumerate(sources):
            targets = draw(st.sampled_from((["a"], ["b"], ["a", "b"])))
            route = {"name": f"r{number}{index}", "listeners": [name]}
            route["forward"] = [{"pool": x, "weight": draw(st.integers(1, 3))} for x in targets]
            if source is not None:
                route["sources"] = [source]
            if (found := draw(access)) is not None:
                route["access"] = found
            routes.append(route)
    used = {target["pool"] for route in routes for target in route["forward"]}
    pools = {name: pool for name, pool in pools.items() if name in used}
    return {"version": 1, "name": "drawn", "listeners": listeners, "pools": pools, "routes": routes}


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass
class Lab:
    net: Network
    folder: Path

    def nft(self, *words: str) -> str:
        asked = spawn(("nft", *words), user=User(), directory=self.folder, output=-1, netns=self.net.holder.pid)
        said, _ = asked.communicate(timeout=20)
        assert asked.returncode == 0, (words, said.decode())
        return said.decode()

    def load(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def rules(self) -> dict[str, Any]:
        """What the kernel has, by kind and name, whatever the order of its making; text listings must not fail."""
        assert "lb_drawn" in self.nft("list", "ruleset")
        found: dict[str, Any] = {}
        for each in json.loads(self.nft("-j", "list", "ruleset"))["nftables"]:
            [(kind, data)] = each.items()
            data = {key: value for key, value in data.items() if key not in ("handle", "index")}
            if "elem" in data:
                data["elem"] = sorted(map(json.dumps, data["elem"]))
            key = " ".join((kind, data.get("family", ""), data.get("chain", data.get("name", ""))))
            found.setdefault(key, []).append(json.dumps(data, sort_keys=True))
        return found


@contextmanager
def endpoints(hosts: tuple[str, ...]) -> Iterator[None]:
    """Endpoints over TCP and UDP that answer with their number."""

    def accept(server: socket.socket, number: int) -> None:
        while True:
            try:
                peer, _ = server.accept()
                peer.sendall(b"%d" % number)
                peer.close()
            except OSError:
                return

    def answer(server: socket.socket, number: int) -> None:
        while True:
            try:
                _, peer = server.recvfrom(100)
                server.sendto(b"%d" % number, peer)
            except (OSError, TypeError):  # shut down: of nobody
                return

    with ExitStack() as stack:
        for host, number in product(hosts, range(ENDS)):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            for kind, serve in ((socket.SOCK_STREAM, accept), (socket.SOCK_DGRAM, answer)):
                server = stack.enter_context(socket.socket(family, kind))
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((host, FIRST + number))
                if kind is socket.SOCK_STREAM:
                    server.listen(200)
                stack.callback(_shut, server)
                threading.Thread(target=serve, args=(server, number), daemon=True).start()
        yield


def _shut(server: socket.socket) -> None:
    with suppress(OSError):  # UDP, where it does so all the same
        server.shutdown(socket.SHUT_RDWR)  # wakes its thread


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with network() as net:
        ip(*(f"address add {x}/128 dev {net.device} nodad" for x in (*CLIENTS[6], "fd98:8::1")))
        ip(*(f"address add {x}/32 dev {net.device}" for x in CLIENTS[4]), f"route add {INSIDE[4]} via {net.inside}")
        ip(f"route add fd98:8::2 dev {net.device}", f"route add {INSIDE[6]} via fd98:8::2")
        net.ip(*(f"address add {INSIDE[4]}/32 dev lo", f"address add {INSIDE[6]}/128 dev lo nodad"))
        net.ip(
            "address add fd98:8::2/128 dev lb0 nodad", "route add fd98:8::1 dev lb0", "route add default via fd98:8::1"
        )
        net.run_inside(lambda: Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1"))
        with endpoints((CLIENTS[4][0], CLIENTS[6][0])):
            yield Lab(net, tmp_path_factory.mktemp("rules"))


def ask(protocol: Protocol, client: str, where: tuple[str, int], *, seconds: float) -> int | None:
    """The endpoint that answers a client; None where the connection is closed or the datagram dropped."""
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    kind = socket.SOCK_DGRAM if protocol is Protocol.UDP else socket.SOCK_STREAM
    with socket.socket(family, kind) as sock:
        sock.settimeout(seconds)
        sock.bind((client, next(_PORTS)))
        try:
            sock.connect(where)
            if kind is socket.SOCK_DGRAM:
                sock.send(b"?")
            return int(sock.recv(10))
        except ConnectionRefusedError:
            return None
        except TimeoutError:
            assert protocol is Protocol.UDP, "a connection that is not admitted is reset"
            return None


def expected(plan: Plan, listener: str, client: str) -> dict[int, float]:
    """The share of each endpoint, by its number; empty where the client is not admitted."""
    outcome = simulate_l4(plan, listener, source=client)
    total = sum(weight for _, weight in outcome.pools)
    found: Counter[int] = Counter()
    for name, weight in outcome.pools:
        usable = [x for x in plan.pool(name).endpoints if x.weight and not x.backup]
        for each in usable:
            found[each.port - FIRST] += weight / total * each.weight / sum(x.weight for x in usable)  # type: ignore[assignment]
    return dict(found)


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
@settings(max_examples=15, derandomize=True, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_rules_change_to_what_they_say_and_serve_as_the_oracle(lab: Lab, data: st.DataObject) -> None:
    first, last = (plan_of(data.draw(topologies())) for _ in range(2))
    before, after = ({x.name: x.text for x in ENGINE.render(each, "1.0")} for each in (first, last))
    lab.nft("flush", "ruleset")
    lab.load(after)
    lab.nft("-f", "lbgen.nft")
    wanted = lab.rules()
    lab.nft("flush", "ruleset")
    lab.load(before)
    lab.nft("-f", "lbgen.nft")
    change = ENGINE.change(before, after)
    (families, ranges), (others, others_ranges) = shape(first), shape(last)
    fits = families == others and all(ranges[x] is others_ranges[x] for x in ranges.keys() & others_ranges.keys())
    assert bool(change) is fits
    lab.load(after | {ENGINE.change_file: change})
    if change:
        lab.nft("-f", ENGINE.change_file)
    else:
        lab.nft("flush", "ruleset")
        lab.nft("-f", "lbgen.nft")
    assert lab.rules() == wanted
    for listener in last.listeners:
        kind = 6 if ":" in listener.address else 4
        where = (INSIDE[kind], listener.port)
        for client in CLIENTS[kind]:
            shares = expected(last, listener.name, client)
            tries = TIMES if shares else 1
            seconds = 2 if shares or listener.protocol is Protocol.TCP else SECONDS
            counts = Counter(ask(listener.protocol, client, where, seconds=seconds) for _ in range(tries))
            if not shares:
                assert counts == {None: 1}, (listener.name, client)
                continue
            assert counts.keys() <= shares.keys(), (listener.name, client, counts, shares)
            rule = simulate_l4(last, listener.name, source=client).route
            match balance_of(last, str(rule)):
                case Balance.SOURCE_HASH:
                    assert len(counts) == 1
                case Balance.ROUND_ROBIN:
                    off = {x: abs(counts[x] - share * TIMES) for x, share in shares.items()}
                    assert max(off.values()) < 3, (counts, shares)
                case Balance.RANDOM:
                    for x, share in shares.items():
                        assert abs(counts[x] - share * TIMES) <= 5 * sqrt(TIMES * share * (1 - share)) + 1e-9


def shape(plan: Plan) -> tuple[set[bool], dict[tuple[str, Protocol], bool]]:
    """What no transaction changes: the families, and which maps have ranges."""
    ranges = {
        (rule.route, x.protocol): balance_of(plan, rule.route) is Balance.SOURCE_HASH
        for x in plan.listeners
        for rule in x.l4_rules
    }
    return {":" in x.address for x in plan.listeners}, ranges


def plan_of(topology: dict[str, Any]) -> Plan:
    plan = lbgen.plan(lbgen.load(topology))
    assert not list(engine("nftables").objections(plan, "1.0"))
    return plan


def balance_of(plan: Plan, route: str) -> Balance:
    action = plan.route(route).action
    assert isinstance(action, Forward)
    return plan.pool(action.targets[0].pool).balance
