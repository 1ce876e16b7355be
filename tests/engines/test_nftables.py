"""nftables: what is rendered, what is refused, and the kernel doing it in a namespace."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import lbgen
from lbgen import api
from lbgen.cli.main import group
from lbgen.engines.api import Level
from lbgen.engines.nftables import ENGINE
from lbgen.engines.nftables.support import SUPPORT
from lbgen.engines.nftables.upstreams import Share, shares, spans
from lbgen.plan.model import Balance, Plan, Pool, Timeouts
from lbgen.plan.policy import Access
from lbgen.runtime.local.network import network
from lbgen.runtime.local.process import run_engine
from tests.support import plans
from tests.support.plans import forward, on_tcp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.runtime.local.engine_process import EngineProcess

PORT = 24_200
needs_kernel = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") is None,
    reason="needs root, ip and nft",
)


def pool(host: str, weights: tuple[int, ...], balance: Balance = Balance.ROUND_ROBIN, name: str = "pg") -> Pool:
    ends = (plans.endpoint(host, PORT + 1 + i, w) for i, w in enumerate(weights))
    return plans.pool(name, *ends, balance=balance)


def plan(*pools: Pool, address: str = "0.0.0.0", idle: int = 60_000) -> Plan:  # noqa: S104 - the default
    action = forward(*(each.name for each in pools), times=Timeouts(1000, 0, idle))
    return replace(on_tcp(action, *pools, port=PORT, address=address), name="shop")


def slots(weights: tuple[int, ...]) -> list[int]:
    found = tuple(Share(plans.endpoint("10.0.0.1", PORT + 1 + i, w), w) for i, w in enumerate(weights))
    return [x.endpoint.port - PORT for x in spans(found, interleaved=True) for _ in range(x.first, x.last + 1)]


def test_refusals_say_why():
    assert SUPPORT["listener.l7"].level is Level.REFUSED
    assert "L4" in SUPPORT["route.retries"].note


def test_slots_are_exact_and_spread():
    assert slots((1, 1, 1)) == [1, 2, 3]
    assert Counter(slots((5, 3, 2))) == {1: 5, 2: 3, 3: 2}
    cycle = slots((5, 3, 2)) * 2
    assert max(len(run) for run in "".join(map(str, cycle)).replace("2", " ").replace("3", " ").split()) <= 2


def test_weights_shrink_to_the_smallest_cycle_and_zero_has_no_slot():
    found = shares(plan(pool("10.0.0.1", (60, 40, 0))), plan(pool("10.0.0.1", (60, 40, 0))).routes[0])
    assert [share.slots for share in found] == [3, 2]


def test_a_split_is_flattened_by_weight():
    both = plan(pool("10.0.0.1", (3, 1)), pool("10.0.0.2", (1,), name="other"))
    assert [share.slots for share in shares(both, both.routes[0])] == [3, 1, 4]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (plan(pool("10.0.0.1", (1,)), pool("10.0.0.2", (1,), Balance.RANDOM, "other")), "the same `balance`"),
        (plan(pool("127.0.0.1", (1,))), "loopback"),
        (plan(pool("fd00::1", (1,))), r"from 0\.0\.0\.0 to fd00::1"),
        (plan(pool("10.0.0.1", (65_537, 65_536))), "need 131073 slots"),
    ],
)
def test_single_values_are_refused_with_a_reason(made, why):
    objections = list(ENGINE.objections(made, "1.0"))
    assert len(objections) == 1
    assert objections[0].verdict.level is Level.REFUSED
    assert re.search(why, objections[0].verdict.note)


def test_a_limit_of_several_endpoints_is_approximate():
    (found,) = ENGINE.objections(plan(replace(pool("10.0.0.1", (1, 1)), max_per_endpoint=2)), "1.0")
    assert (found.verdict.level, found.feature) == (Level.APPROXIMATE, "pool.connections.max_per_endpoint")


def test_rendering_is_stable_and_knows_its_origins():
    made = plan(pool("10.0.0.1", (5, 3, 2)))
    (first,), (second,) = ENGINE.render(made, "1.0"), ENGINE.render(made, "1.0")
    assert first.text == second.text
    lines = first.text.splitlines()
    assert first.origins[lines.index("\tmap lb_db/tcp/ip {")] == "routes[0]"
    assert first.origins[next(i for i, x in enumerate(lines) if "dnat" in x)] == "routes[0]"
    assert first.origins[next(i for i, x in enumerate(lines) if ": goto lb_db/tcp/ip" in x)] == "listeners.db"


def test_ipv6_has_a_table_of_its_own():
    text = ENGINE.render(plan(pool("fd00::1", (1, 1)), address="fd00::9"), "1.0")[0].text
    assert "table ip6 lb_shop {" in text
    assert "\t\tip6 daddr . meta l4proto . th dport vmap @lb_admit\n" in text
    assert "\t\t\tfd00::9 . tcp . 24200 : goto lb_db/admit," in text
    assert "dnat ip6 addr . port to" in text
    assert "table ip lb_shop" not in text


def test_one_endpoint_has_one_limit():
    pools = [replace(pool("10.0.0.1", (1,), name=name), max_per_endpoint=most) for name, most in (("a", 2), ("b", 3))]
    notes = [objection.verdict.note for objection in ENGINE.objections(plan(*pools), "1.0")]
    assert any("a different `max_per_endpoint`" in note for note in notes)


def test_networks_of_the_other_family_and_overlaps_are_left_out():
    made = plan(pool("10.0.0.1", (1,)))
    access = Access(("10.1.0.0/16", "10.1.2.0/24", "2001:db8::/32"), ("2001:db8::/48",))
    text = ENGINE.render(replace(made, listeners=(replace(made.listeners[0], access=access),)), "1.0")[0].text
    assert "ip saddr != { 10.1.0.0/16 } reject with tcp reset" in text
    assert "2001" not in text


@contextmanager
def named_servers(host: str, count: int):
    """Servers that send their number, echo what comes, and `bye` after the client's end."""
    servers = [socket.create_server((host, PORT + 1 + i), backlog=200) for i in range(count)]

    def talk(peer: socket.socket, number: int) -> None:
        with peer:
            try:
                peer.sendall(b"%d" % number)
                while data := peer.recv(65536):
                    peer.sendall(data)
                peer.sendall(b"bye")
            except OSError:
                return

    def serve(server: socket.socket, number: int) -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(peer, number), daemon=True).start()

    for number, server in enumerate(servers, 1):
        threading.Thread(target=serve, args=(server, number), daemon=True).start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown(socket.SHUT_RDWR)
            server.close()


def ask(address: tuple[str, int]) -> int:
    with socket.create_connection(address, 2) as client:
        return int(client.recv(1))


@contextmanager
def serving(count: int, made: Callable[[str], Plan]) -> Iterator[EngineProcess]:
    """The plan that `made` gives for the host's address, loaded in a namespace, with that many endpoints."""
    with network() as net, named_servers(net.host, count), run_engine(ENGINE, made(net.host), network=net) as handle:
        yield handle


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
class TestKernel:
    @pytest.mark.parametrize(
        ("balance", "low", "high"),
        [(Balance.ROUND_ROBIN, (50, 30, 20), (50, 30, 20)), (Balance.RANDOM, (30, 12, 5), (70, 48, 40))],
    )
    def test_weights(self, balance, low, high):
        with serving(3, lambda host: plan(pool(host, (5, 3, 2), balance))) as handle:
            found = Counter(ask(handle.address("db")) for _ in range(100))
        for index in range(3):
            assert low[index] <= found[index + 1] <= high[index]

    def test_source_hash_is_sticky(self):
        with serving(3, lambda host: plan(pool(host, (1, 1, 1), Balance.SOURCE_HASH))) as handle:
            assert len({ask(handle.address("db")) for _ in range(20)}) == 1

    def test_half_close_and_bytes(self):
        payload, received = os.urandom(300_000), bytearray()
        with (
            serving(1, lambda host: plan(pool(host, (1,)))) as handle,
            socket.create_connection(handle.address("db"), 2) as client,
        ):
            sender = threading.Thread(target=lambda: (client.sendall(payload), client.shutdown(socket.SHUT_WR)))
            sender.start()
            while data := client.recv(65536):
                received += data
            sender.join()
        assert bytes(received) == b"1" + payload + b"bye"

    def test_idle_is_what_the_verdict_says(self):
        with (
            serving(1, lambda host: plan(pool(host, (1,)), idle=1_000)) as handle,
            socket.create_connection(handle.address("db"), 2) as client,
        ):
            assert client.recv(1) == b"1"
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            time.sleep(2.5)
            client.sendall(b"y")
            with pytest.raises(ConnectionError):
                client.recv(1)

    def test_open_connections_stay_when_the_file_is_loaded_again(self):
        with (
            serving(2, lambda host: plan(pool(host, (1, 0)))) as handle,
            socket.create_connection(handle.address("db"), 2) as client,
        ):
            assert client.recv(1) == b"1"
            other = replace(handle.plan, pools=(pool(handle.network.host, (0, 1)),))
            (handle.directory / "lbgen.nft").write_text(ENGINE.render(other, "1.0")[0].text)
            handle.network.run_command(handle.spec.setup[0], handle.directory)
            assert ask(handle.address("db")) == 2
            client.sendall(b"still")
            assert client.recv(5) == b"still"

    def test_an_endpoint_takes_no_more_connections_than_its_limit(self):
        with (
            serving(1, lambda host: plan(replace(pool(host, (1,)), max_per_endpoint=2))) as handle,
            socket.create_connection(handle.address("db"), 2) as first,
            socket.create_connection(handle.address("db"), 2) as second,
        ):
            assert (first.recv(1), second.recv(1)) == (b"1", b"1")
            with pytest.raises(ConnectionRefusedError):
                ask(handle.address("db"))
            second.shutdown(socket.SHUT_WR)
            assert second.recv(3) == b"bye"
            assert first.sendall(b"x") is None
            assert until(lambda: ask(handle.address("db"))) == 1

    def test_nothing_is_left(self):
        with serving(1, lambda host: plan(pool(host, (1,)))) as handle:
            cable = f"lbg{handle.pid}"
            assert cable in interfaces()
        end = time.monotonic() + 5
        while cable in interfaces() and time.monotonic() < end:
            time.sleep(0.02)
        assert cable not in interfaces()


def until(ask_again: Callable[[], int], seconds: float = 5) -> int:
    """The first answer within that time; what is counted is looked at again after a moment."""
    end = time.monotonic() + seconds
    while True:
        try:
            return ask_again()
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def services(count: int, changed: int | None = None, **more: object) -> Plan:
    """That many services of three endpoints; the one that is `changed` has one endpoint less."""
    ends = {n: [{"address": f"10.9.{n // 250}.{n % 250 + 1}:{port}"} for port in (80, 81, 82)] for n in range(count)}
    if changed is not None:
        ends[changed].pop()
    topology = {
        "version": 1,
        "name": "many",
        "listeners": {f"s{n}": {"port": 20_000 + n, "mode": "l4"} for n in ends},
        "pools": {f"s{n}": {"endpoints": each, **more} for n, each in ends.items()},
        "routes": [{"name": f"s{n}", "listeners": [f"s{n}"], "forward": f"s{n}"} for n in ends],
    }
    return lbgen.plan(lbgen.load(topology))


def texts(made: Plan) -> dict[str, str]:
    return {file.name: file.text for file in ENGINE.render(made, "1.0")}


@pytest.mark.parametrize("more", [{}, {"health": {"active": {}}}])
def test_a_change_of_one_service_sends_no_rule_of_another(more):
    sent = [ENGINE.change(texts(services(count, **more)), texts(services(count, 7, **more))) for count in (10, 60)]
    assert re.sub("lb_rules/[0-9]{20}", "", sent[0]) == re.sub("lb_rules/[0-9]{20}", "", sent[1])
    assert len(sent[0].splitlines()) <= 20
    assert set(re.findall(r"lb_(s\d+)/", sent[0])) == {"s7"}
    assert "delete element ip lb_many lb_targets { 10.9.0.8 . tcp . 82 }" in sent[0]


def test_what_lbgen_did_not_write_is_loaded_whole():
    before, after = texts(services(2)), texts(services(2, 0))
    assert ENGINE.change(before, after)
    own = before["lbgen.nft"].replace("\n}\n", "\n\tset own { type ipv4_addr; }\n}\n")
    assert not ENGINE.change({"lbgen.nft": own}, after)
    assert not ENGINE.change({"lbgen.nft": re.sub(r"\tchain lb_rules/.*\n\t}\n", "", before["lbgen.nft"])}, after)


@needs_kernel
@pytest.mark.engines
@pytest.mark.root
@pytest.mark.xdist_group("runtime")
def test_counts_are_those_of_real_connections_and_survive_a_reload(monkeypatch, tmp_path):
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def topology(*weights: int) -> lbgen.Topology:
        ends = [{"address": f"10.0.0.{n}:80", "weight": weight} for n, weight in enumerate(weights, 1)]
        return lbgen.load(
            {
                "version": 1,
                "name": "counted",
                "listeners": {
                    "db": {
                        "port": PORT,
                        "mode": "l4",
                        "access": {"deny": ["127.0.0.0/8"]},
                    },  # probes are no such clients
                    "other": {"port": PORT + 1, "mode": "l4"},
                },
                "pools": {"db": {"endpoints": ends}},
                "routes": [
                    {"name": "db", "listeners": ["db"], "forward": "db"},
                    {"name": "other", "listeners": ["other"], "forward": "db", "access": {"deny": ["0.0.0.0/0"]}},
                ],
            }
        )

    def counts() -> tuple[dict[str, int], list[int | None]]:
        said = json.loads(CliRunner().invoke(group, ["stats", "counted", "--json"]).stdout)
        health = api.ps("counted")[0].health()["nftables"]
        return {each["route"]: each["requests"] for each in said}, [each.connections for each in health]

    stack = lbgen.up(topology(3, 1), engine="nftables", runtime="local", accept=("all",))
    try:
        [url] = {x.url for x in stack.engines[0].addresses if x.listener == "db"}
        where = urlsplit(url)
        before, ends = counts()
        for _ in range(40):
            socket.create_connection((where.hostname, where.port), 2).close()
        found, after = counts()
        assert (found["db"] - before["db"], found["other"]) == (40, 0)
        assert [now - then for now, then in zip(after, ends, strict=True)] == [30, 10]
        lbgen.reload(topology(1, 1))
        kept, again = counts()
        assert kept["db"] - found["db"] <= 2  # the reload's own look at the route
        assert sum(again) - sum(after) <= 2
        assert "connections" in CliRunner().invoke(group, ["ps", "counted"]).stdout
    finally:
        api.down("counted")
