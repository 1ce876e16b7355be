"""Counting a log, and what is served of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lbgen.agent import metric_names as names
from lbgen.agent.counters import Counters
from lbgen.agent.log_tail import LogTail
from lbgen.agent.metrics import STATE, Metrics, count_connections
from lbgen.engines.metrics_spec import METHODS, ConnectionRecord, CountedListener, CountedPool, MetricsSpec, l4_format

SPEC = MetricsSpec(
    stack="shop",
    engine="traefik",
    version="3.7",
    address="127.0.0.1",
    port=0,
    relay="",
    listeners=(CountedListener("web", "127.0.0.1", 8080),),
    routes=("api", "gone"),
    pools=(CountedPool("app", True, (("10.0.0.1:8080", "127.0.0.1:26000"),)),),
    methods=METHODS,
    admin_port=None,
)
EVERY = "0.0.0.0"  # noqa: S104  # compared with, not bound
# Names, types and labels: dashboards rest on them.
SERVED = {
    "lbgen_info": ("gauge", {"stack", "engine", "version"}),
    "lbgen_requests": ("counter", {"listener", "route", "pool", "method", "status_class"}),
    "lbgen_request_duration_seconds": ("histogram", {"listener", "route"}),
    "lbgen_upstream_duration_seconds": ("histogram", {"route", "pool"}),
    "lbgen_upstream_tries": ("counter", {"route", "pool"}),
    "lbgen_retried_requests": ("counter", {"route", "pool"}),
    "lbgen_response_body_bytes": ("counter", {"listener", "route"}),
    "lbgen_l4_connections": ("counter", {"listener", "pool"}),
    "lbgen_l4_connection_duration_seconds": ("histogram", {"listener"}),
    "lbgen_l4_received_bytes": ("counter", {"listener", "pool"}),
    "lbgen_l4_sent_bytes": ("counter", {"listener", "pool"}),
    "lbgen_connections": ("gauge", {"listener"}),
    "lbgen_endpoint_state": ("gauge", {"pool", "endpoint", "state"}),
    "lbgen_unread_log_lines": ("counter", set()),
}


def line(
    method="GET", route="api", pool="app", tries=1, upstream_ms=6.0, status=200, size=100, host="shop.example", path="/"
):
    """A line of Traefik's log. Without `pool` no endpoint was asked."""
    of_pool = {
        "ServiceName": f"{pool}@file",
        "ServiceAddr": "127.0.0.1:26000",
        "RetryAttempts": tries - 1,
        "OriginDuration": upstream_ms * 1e6,
    }
    record = {
        "StartUTC": "2026-11-22T10:00:00.000123Z",
        "entryPointName": "web",
        "RouterName": f"{route}@file",
        "RequestMethod": method,
        "RequestHost": host,
        "RequestPath": path,
        "DownstreamStatus": status,
        "DownstreamContentSize": size,
        "Duration": 7_500_000,
        "request_X-Request-Id": "1",
    }
    return json.dumps(record | (of_pool if pool else {})) + "\n"


def counted(folder, spec=SPEC):
    made = Metrics(spec, folder, lambda text: None)
    while made.count():
        pass
    return made


def samples(metrics):
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    return {
        (each.name, *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_names_types_and_labels_stay(tmp_path: Path) -> None:
    assert {x.name.removesuffix("_total"): (x.type, set(x.labels)) for x in names.FAMILIES} == SERVED
    registry = CollectorRegistry()
    registry.register(counted(tmp_path))
    found = {x.name: x.type for x in text_string_to_metric_families(generate_latest(registry).decode())}
    assert found == {name: kind for name, (kind, _) in SERVED.items()}


def test_the_page_of_the_documentation_has_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for family in names.FAMILIES:
        assert f"| `{family.name}` | {family.type} | " in page, family.name
        assert family.help.rstrip(".") in page, family.name
    assert ", ".join(f"{bound:g}" for bound in names.BUCKETS) in page


def test_requests_are_counted_by_names_of_the_plan(tmp_path: Path) -> None:
    odd = line(method="BREW", route="unheard-of", pool="", status=404)
    left = line(status=0, tries=3, size=0)
    (tmp_path / "metrics.log").write_text(
        line() + line() + odd + left + "a message of the engine\n" + line()[:50] + "\n"
    )
    found = samples(counted(tmp_path))
    key = (("listener", "web"), ("method", "GET"), ("pool", "app"), ("route", "api"))
    assert found["lbgen_requests_total", *key, ("status_class", "2xx")] == 2
    assert found["lbgen_requests_total", *key, ("status_class", "none")] == 1
    key = (("listener", "web"), ("method", "other"), ("pool", "-"), ("route", "-"))
    assert found["lbgen_requests_total", *key, ("status_class", "4xx")] == 1
    assert found["lbgen_upstream_tries_total", ("pool", "app"), ("route", "api")] == 5
    assert found["lbgen_retried_requests_total", ("pool", "app"), ("route", "api")] == 1
    assert found["lbgen_response_body_bytes_total", ("listener", "web"), ("route", "api")] == 200
    assert found["lbgen_unread_log_lines_total",] == 1
    bucket = ("lbgen_request_duration_seconds_bucket",)
    place = (("listener", "web"), ("route", "api"))
    at = {bound: found[(*bucket, *sorted((("le", bound), *place)))] for bound in ("0.005", "0.01", "+Inf")}
    assert at == {"0.005": 0, "0.01": 3, "+Inf": 3}
    assert found["lbgen_endpoint_state", ("endpoint", "10.0.0.1:8080"), ("pool", "app"), ("state", "unknown")] == 1


def test_connections_are_counted_that_had_an_endpoint(tmp_path: Path) -> None:
    shared = {"received": "7", "sent": "9"}
    lines = [
        l4_format("web", pool="app~1", endpoint="10.0.0.1:5432", seconds="0.250", **shared),
        l4_format("web", pool="app:2", endpoint="s1", milliseconds="250", **shared),
        l4_format("web", pool="app@x", endpoint="-", milliseconds="250", **shared),
        l4_format("web", pool="nobody~", endpoint="", seconds="0.000", **shared),
        l4_format("web", pool="web", endpoint="<NOSRV>", milliseconds="0", **shared),
        l4_format("web", pool="app", endpoint="s1", milliseconds="many", **shared),
    ]
    (tmp_path / "metrics.log").write_text("".join(f"{each}\n" for each in lines))
    found = samples(counted(tmp_path))
    place = (("listener", "web"), ("pool", "app"))
    assert found["lbgen_l4_connections_total", *place] == 2
    assert (found["lbgen_l4_received_bytes_total", *place], found["lbgen_l4_sent_bytes_total", *place]) == (14, 18)
    assert found["lbgen_l4_connection_duration_seconds_sum", ("listener", "web")] == 0.5
    assert found["lbgen_unread_log_lines_total",] == 1


def test_what_clients_send_makes_no_series(tmp_path: Path) -> None:
    text = "".join(line(method=f"M{n}", route=f"r{n}", host=f"h{n}", path=f"/{n}", status=200 + n) for n in range(700))
    (tmp_path / "metrics.log").write_text(text)
    found = counted(tmp_path).counters.counts["lbgen_requests_total"]
    assert len(found) <= len(names.STATUS_CLASSES)
    assert sum(found.values()) == 700


def test_a_restarted_agent_counts_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "metrics.log"
    log.write_text(line() * 3)
    first = counted(tmp_path)
    first.save()
    with log.open("a") as stream:
        stream.write(line() * 2)
    first.count()  # and is killed before it saves
    again = counted(tmp_path)
    assert sum(again.counters.counts["lbgen_requests_total"].values()) == 5
    without = replace(SPEC, routes=("gone",))  # the route went by a reload
    again.save()
    assert not counted(tmp_path, without).counters.counts["lbgen_requests_total"]


@pytest.mark.parametrize("text", ["", "{", "{}", '{"counts": 1}', "[]"])
def test_a_broken_state_begins_at_zero(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).write_text(text)
    (tmp_path / "metrics.log").write_text(line())
    assert sum(counted(tmp_path).counters.counts["lbgen_requests_total"].values()) == 1


def test_what_was_counted_is_freed_and_its_size_stays(tmp_path: Path) -> None:
    log = tmp_path / "metrics.log"
    log.write_text(line() * 20_000)
    os.sync()
    before = log.stat()
    made = counted(tmp_path)
    made.save()
    after = log.stat()
    assert after.st_size == before.st_size
    assert after.st_blocks * 512 <= 8192
    (tmp_path / STATE).unlink()
    with log.open("a") as stream:
        stream.write(line())
    again = counted(tmp_path)  # which begins after what was freed
    assert sum(again.counters.counts["lbgen_requests_total"].values()) <= 40


def test_a_log_may_be_moved_or_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbgen.agent.log_tail._LATE_SECONDS", 0)
    log = tmp_path / "log"
    tail = LogTail(log)
    assert tail.read() == b""
    log.write_bytes(b"one\ntw")
    assert tail.read() == b"one\n"
    with log.open("ab") as stream:
        stream.write(b"o\n")
    assert tail.read() == b"two\n"
    log.rename(tmp_path / "log.1")
    with (tmp_path / "log.1").open("ab") as stream:  # its writer has not noticed
        stream.write(b"late\n")
    log.write_bytes(b"three\n")
    assert [found for _ in range(6) if (found := tail.read())] == [b"late\n", b"three\n"]
    os.truncate(log, 0)
    with log.open("ab") as stream:
        stream.write(b"x\n")
    assert b"x\n" in [tail.read() for _ in range(4)]


def test_lines_are_copied_where_the_engine_has_one_log(tmp_path: Path) -> None:
    (tmp_path / "metrics.log").write_text(line() * 2)
    counted(tmp_path, replace(SPEC, relay="access.log"))
    assert (tmp_path / "access.log").read_text() == line() * 2


def test_open_connections_are_those_of_the_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        listeners = (CountedListener("web", EVERY, port), CountedListener("own", "127.0.0.1", port))
        assert count_connections(listeners) == {"web": 0, "own": 0}
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            assert count_connections(listeners) == {"web": 0, "own": 1}
            assert count_connections(listeners[:1]) == {"web": 1}
            assert client.getpeername()[1] == port
            accepted.close()
    assert count_connections((CountedListener("dns", EVERY, 0),)) == {}


def test_counters_keep_their_form() -> None:
    made = Counters(SPEC)
    made.add_connection(ConnectionRecord("web", "app", 1.0, 3, 5))
    again = Counters(SPEC)
    again.restore(json.loads(json.dumps(made.to_data())))
    assert again.to_data() == made.to_data()
    assert made.counts["lbgen_l4_sent_bytes_total"] == {("web", "app"): 5}


def scraped(port: int, requests: int) -> str:
    """The text that the agent serves, once it has counted so many requests."""
    end = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
            if f'status_class="2xx"}} {requests}.0' in text:
                return text
        except OSError:
            text = "nothing served"
        assert time.monotonic() < end, text
        time.sleep(0.1)


def test_a_whole_agent_counts_serves_and_goes_on_after_its_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "metrics.json").write_text(json.dumps(msgspec.to_builtins(replace(SPEC, port=port))))
    log = tmp_path / "metrics.log"
    log.write_text(line() * 3)
    for total, stop in ((3, signal.SIGTERM), (5, signal.SIGTERM), (7, signal.SIGKILL), (9, signal.SIGTERM)):
        with subprocess.Popen([sys.executable, "-m", "lbgen", "agent", tmp_path], stderr=subprocess.PIPE) as agent:
            try:
                scraped(port, total)
                if stop is signal.SIGKILL:
                    time.sleep(2)  # a second after the save
            finally:
                agent.send_signal(stop)
            assert agent.wait(10) == (0 if stop is signal.SIGTERM else -stop)
            said = agent.stderr.read().decode()
        assert f"serves metrics on 127.0.0.1:{port}" in said
        with log.open("a") as stream:
            stream.write(line() * 2)
