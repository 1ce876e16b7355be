"""The same load on every engine is counted the same: locally, with a log and without one."""

from __future__ import annotations

import os
import signal
import socket
import time
from itertools import accumulate
from pathlib import Path

import pytest

import lbgen
from tests.support import metrics_load as load
from tests.support.sample import sample

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT, METRICS = 24_540, 24_560
L7 = ("nginx", "haproxy", "envoy", "traefik")
L4 = ("nginx", "haproxy", "envoy")
ROUNDS = 15
REQUEST = b"GET / HTTP/1.0\r\nX-Long: %b\r\n\r\n" % (b"x" * 1000)


def urls(stack: lbgen.Stack) -> dict[str, str]:
    return {engine["name"]: engine["metrics"] for engine in stack.as_dict()["engines"]}


def median_bucket(counts: list[int]) -> int:
    """The bucket that holds the median."""
    return next(i for i, total in enumerate(accumulate(counts)) if 2 * total >= sum(counts))


@pytest.mark.parametrize("more", sample([{}, {"access_log": "none"}], [{}]), ids=["json", "none"])
def test_all_engines_count_the_same(more: dict[str, str]) -> None:
    stack = lbgen.up(lbgen.load(load.topology("metrics", PORT, METRICS, **more)), L7, runtime="local", accept=("all",))
    assert sorted(urls(stack)) == sorted(L7)
    before = load.all_settled(urls(stack))
    for engine in before:
        address = stack.address("web", engine)
        load.send(address.host, address.port, ROUNDS)
    for engine, after in load.all_settled(urls(stack)).items():
        counted = load.difference(after, before[engine])
        assert after["lbgen_unread_log_lines_total",] == 0, engine
        assert after["lbgen_connections", ("listener", "web")] <= 1, engine
        assert +load.requests(counted) == load.expected(ROUNDS), engine
        for route in ("api", "slow", "half", "dead", "old", "gone", "-"):
            requests = sum(n for key, n in load.expected(ROUNDS).items() if key[0] == route)
            assert sum(load.in_buckets(counted, "lbgen_request_duration_seconds", route)) == requests, (engine, route)
        tried = {labels["route"]: n for labels, n in load.of(counted, "lbgen_upstream_tries_total")}
        again = {labels["route"]: n for labels, n in load.of(counted, "lbgen_retried_requests_total")}
        assert (tried["api"], tried["slow"], tried["half"]) == (9 * ROUNDS, ROUNDS, 2 * ROUNDS), engine
        assert tried["dead"] == ROUNDS, engine
        assert not again, engine
        for name in ("lbgen_request_duration_seconds", "lbgen_upstream_duration_seconds"):
            assert median_bucket(load.in_buckets(counted, name, "slow")) in (4, 5), (engine, name)  # 50 to 250 ms
            assert median_bucket(load.in_buckets(counted, name, "api")) <= 2, (engine, name)


def test_tries_of_a_dead_endpoint_are_counted() -> None:
    data = load.topology("metrics", PORT, METRICS)
    data["pools"]["half"] = {"endpoints": [{"address": "127.0.0.1:1"}, {"address": "127.0.0.1:2"}], "stand_ins": False}
    stack = lbgen.up(lbgen.load(data), L7, runtime="local", accept=("all",))
    before = load.all_settled(urls(stack))
    for engine in before:
        address = stack.address("web", engine)
        load.send(address.host, address.port, 3)
    for engine, after in load.all_settled(urls(stack)).items():
        counted = load.difference(after, before[engine])
        tried = {labels["route"]: n for labels, n in load.of(counted, "lbgen_upstream_tries_total")}
        again = {labels["route"]: n for labels, n in load.of(counted, "lbgen_retried_requests_total")}
        if engine == "traefik":  # its log says 0 for every request, whatever it tried
            assert (tried["half"], again) == (6, {})
        else:
            assert again["half"] == 6, engine
            assert 12 <= tried["half"] <= 18, engine  # two or three tries each
        assert load.requests(counted)["half", "half", "GET", "5xx"] == 6, engine


def test_l4_connections_and_bytes_are_counted_the_same() -> None:
    data = load.topology("metrics", PORT, METRICS)
    data["listeners"]["db"] = {"port": PORT + 1, "mode": "l4"}
    data["pools"]["pg"] = {"endpoints": [{"address": "10.9.0.9:5432"}]}
    data["routes"].append({"name": "db", "listeners": ["db"], "forward": "pg"})
    stack = lbgen.up(lbgen.load(data), L4, runtime="local", accept=("all",))
    place = (("listener", "db"), ("pool", "pg"))
    before = load.all_settled(urls(stack))
    got = dict.fromkeys(before, 0)
    for engine, url in urls(stack).items():
        address = stack.address("db", engine)
        for number in range(20):
            with socket.create_connection((address.host, address.port), timeout=5) as client:
                client.sendall(REQUEST[:500])
                if not number:
                    assert load.scrape(url)["lbgen_connections", ("listener", "db")] >= 1, engine
                client.sendall(REQUEST[500:])
                while more := client.recv(65536):  # until the stand-in closes
                    got[engine] += len(more)
    for engine, after in load.all_settled(urls(stack)).items():
        counted = load.difference(after, before[engine])
        assert got[engine] > 20 * len(REQUEST), engine  # the stand-in's account of the request
        assert counted["lbgen_l4_connections_total", *place] == 20, engine
        assert counted["lbgen_l4_received_bytes_total", *place] == 20 * len(REQUEST), engine
        assert counted["lbgen_l4_sent_bytes_total", *place] == got[engine], engine
        assert counted["lbgen_l4_connection_duration_seconds_count", ("listener", "db")] == 20, engine


def test_a_reload_and_a_killed_agent_lose_no_count() -> None:
    data = load.topology("metrics", PORT, METRICS)
    stack = lbgen.up(lbgen.load(data), L7, runtime="local", accept=("all",))
    before = load.all_settled(urls(stack))
    for engine in L7:
        address = stack.address("web", engine)
        load.send(address.host, address.port, 2)
    for each in stack.state.engines:
        os.kill(each.agent, signal.SIGKILL)
    data["routes"].append({"name": "new", "match": [{"path": {"exact": "/new"}}], "respond": {"status": 200}})
    deadline = time.monotonic() + 30
    stack = lbgen.reload(lbgen.load(data))
    while True:  # the supervisor starts agents that died
        try:
            after = load.all_settled(urls(stack))
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    for engine in L7:
        counted = load.requests(load.difference(after[engine], before[engine]))
        wanted = load.expected(2)
        for key, count in wanted.items():
            assert counted[key] >= count, (engine, key)  # and what the reload asked of its routes
        assert counted["api", "app", "POST", "2xx"] == wanted["api", "app", "POST", "2xx"], engine


def test_what_was_counted_takes_no_space() -> None:
    stack = lbgen.up(
        lbgen.load(load.topology("metrics", PORT, METRICS, access_log="none")), L7, runtime="local", accept=("all",)
    )
    for each in stack.state.engines:
        address = stack.address("web", each.name)
        load.send(address.host, address.port, 30)
    load.all_settled(urls(stack))
    time.sleep(1.5)
    for each in stack.state.engines:
        log = (Path(each.directory) / "metrics.log").stat()
        assert log.st_size > 60_000, each.name
        assert log.st_blocks * 512 <= 16_384, each.name
        assert not each.access_log, each.name
