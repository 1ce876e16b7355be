"""Numbers of requests: counted per engine and route, forgotten by time, shown."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lbgen.cli import stats as verb
from lbgen.cli.main import group
from lbgen.runtime.common import logs
from lbgen.runtime.common.stats import NO_ROUTE, Counter

SECOND = 1_767_225_600  # 2026-01-01T00:00:00Z


def record(route: str | None, status: int | None, ms: float | None, second: int = 0, tries: int = 1):
    time = f"2026-01-01T00:00:{second:02}.500Z"
    return {"time": time, "route": route, "status": status, "duration_ms": ms, "tries": tries, "bytes": 10}


def test_requests_are_counted_by_engine_and_route():
    counter = Counter()
    for index in range(100):
        counter.add("nginx", record("api", 200, float(index + 1), second=index % 11))
    for status in (404, 429, 502, None, 0):
        counter.add("nginx", record("api", status, None, tries=2))
    counter.add("envoy", record(None, 404, 3.0))
    envoy, nginx = counter.stats()
    assert (envoy.engine, envoy.route, envoy.per_second) == ("envoy", NO_ROUTE, None)
    assert (nginx.requests, nginx.client_errors, nginx.errors, nginx.retried) == (105, 2, 3, 5)
    assert (nginx.p50_ms, nginx.p99_ms, nginx.max_ms) == (50.0, 99.0, 100.0)
    assert nginx.per_second == 10.5
    assert nginx.bytes == 1050


def test_old_requests_are_forgotten():
    counter = Counter(seconds=10.0)
    for second in range(0, 20, 5):
        counter.add("nginx", record("api", 200, 1.0, second))
    (found,) = counter.stats(now=SECOND + 20)
    assert (found.requests, found.per_second) == (2, 0.2)
    assert counter.stats(now=SECOND + 60) == ()


@pytest.fixture
def logged(monkeypatch):
    lines = [
        logs.Line("nginx", "output"),
        logs.Line("nginx", "", record("api", 200, 12.0)),
        logs.Line("nginx", "", record("api", 503, 7.0)),
    ]
    monkeypatch.setattr(verb, "requests", lambda *_, **__: iter(lines))
    monkeypatch.setattr(verb, "_counted", lambda *_: None)  # a stack without metrics
    monkeypatch.setattr(verb, "_connections", lambda *_: ())
    return lines


def test_the_verb_shows_a_table_and_json(logged):
    shown = CliRunner().invoke(group, ["stats", "shop"])
    assert shown.exit_code == 0
    (row,) = (line.split() for line in shown.output.splitlines() if "api" in line)
    assert row == ["nginx", "api", "2", "-", "0", "1", "0", "7.0", "12.0"]
    (found,) = json.loads(CliRunner().invoke(group, ["stats", "shop", "--json"]).output)
    assert (found["requests"], found["errors"]) == (2, 1)


def test_following_ends_with_the_stack_and_tells_what_went_wrong(logged, monkeypatch):
    monkeypatch.setattr(verb, "_REFRESH_SECONDS", 0.01)
    shown = CliRunner().invoke(group, ["stats", "shop", "-f", "--since", "24h", "--json"])
    assert shown.exit_code == 0
    assert json.loads(shown.output.splitlines()[-1]) == []  # those of the log are older than that

    def broken():
        yield logged[1]
        raise RuntimeError("the log is gone")

    monkeypatch.setattr(verb, "requests", lambda *_, **__: broken())
    assert isinstance(CliRunner().invoke(group, ["stats", "shop", "-f"]).exception, RuntimeError)


@pytest.mark.parametrize(("since", "said"), [("5", "5"), ("200ms", "the minimum is 1s"), ("1.5s", "write 1500ms")])
def test_a_wrong_time_is_a_usage_error(since: str, said: str):
    shown = CliRunner().invoke(group, ["stats", "--since", since])
    assert shown.exit_code == 2
    assert said in shown.output


def test_nothing_logged_says_how_to_log(monkeypatch):
    monkeypatch.setattr(verb, "requests", lambda *_, **__: iter(()))
    monkeypatch.setattr(verb, "_counted", lambda *_: None)
    monkeypatch.setattr(verb, "_connections", lambda *_: ())
    assert "access_log: json" in CliRunner().invoke(group, ["stats", "shop"]).output
