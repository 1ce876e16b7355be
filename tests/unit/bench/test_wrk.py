"""What wrk prints and is given, and where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.bench.load import LoadShape, find_wrk, read_wrk, wrk_command
from lbgen.diagnostics import EngineError

PRINTED = """\
Running 2s test @ http://127.0.0.1:20001/api
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     8.11ms   10.02ms 142.01ms   92.51%
    Req/Sec     3.96k     1.12k    5.64k    70.00%
  Latency Distribution
     50%  950.00us
     75%    8.50ms
     90%   14.73ms
     99%    1.25s\x20
  7881 requests in 2.01s, 40.02MB read
{more}Requests/sec:   3925.55
Transfer/sec:     19.93MB
"""
ERRORS = "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 17\n"


def test_figures_in_milliseconds() -> None:
    found = read_wrk(PRINTED.format(more=""))
    assert (found.requests, found.errors, found.refused) == (7881, 0, 0)
    assert (found.per_second, found.p50_ms, found.p99_ms) == pytest.approx((3925.55, 0.95, 1250.0))


def test_errors_are_counted() -> None:
    found = read_wrk(PRINTED.format(more=ERRORS))
    assert (found.errors, found.refused) == (10, 17)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("unable to connect to 127.0.0.1:1 Connection refused\n", "got no answers"),
        (PRINTED.format(more="").replace("7881 requests", "0 requests"), "got no answers"),
        (PRINTED.format(more="").replace("     99%    1.25s \n", ""), "no 99% percentile"),
    ],
)
def test_output_without_a_figure_is_an_error(output: str, message: str) -> None:
    with pytest.raises(EngineError, match=message) as caught:
        read_wrk(output)
    assert caught.value.diagnostics[0].code == "LB430"


def test_a_missing_wrk_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError) as caught:
        find_wrk()
    assert caught.value.diagnostics[0].code == "LB430"
    assert "install" in caught.value.diagnostics[0].hint


def test_headers_are_words_of_their_own() -> None:
    words = wrk_command("wrk", "http://127.0.0.1:1/", (("Host", "a b; c"),), LoadShape(50), 2)
    assert words[-3:] == ["-H", "Host: a b; c", "http://127.0.0.1:1/"]


def test_a_new_connection_for_each_request_is_asked_for() -> None:
    words = wrk_command("wrk", "http://127.0.0.1:1/", (), LoadShape(50, keep_alive=False), 2)
    assert words[-3:] == ["-H", "Connection: close", "http://127.0.0.1:1/"]


def test_tls_asks_for_the_host_of_the_url() -> None:
    words = wrk_command("wrk", "https://a.example:1/", (), LoadShape(50), 2)
    script = Path(words[words.index("-s") + 1])
    assert "127.0.0.1" in script.read_text(encoding="utf-8")
    assert "-s" not in wrk_command("wrk", "http://127.0.0.1:1/", (), LoadShape(50), 2)
