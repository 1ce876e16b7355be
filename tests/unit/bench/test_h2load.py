"""What h2load prints and is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.bench.load import LoadShape, h2load_command, read_h2load
from lbgen.bench.target import LoadTarget
from lbgen.diagnostics import EngineError

PRINTED = "starting benchmark...\nApplication protocol: h2\n"
LOG = "1000000\t200\t2000\n1100000\t503\t4000\n1400000\t-1\t9000\n1490000\t200\t10000\n"
TARGET = LoadTarget("web", "all", "/a?b=1", (("Host", "a.example"), ("x-new", "1")), "", "a.example", http2=True)
SHAPE = LoadShape(5, streams=10)


def test_figures_are_those_of_the_log() -> None:
    found = read_h2load(PRINTED, LOG)
    assert (found.requests, found.errors, found.refused) == (3, 1, 1)
    assert found.per_second == pytest.approx(
        3 / 0.5
    )  # of the half second between the first request and the last answer
    assert (found.p50_ms, found.p99_ms) == pytest.approx((4.0, 10.0))


@pytest.mark.parametrize(("printed", "log"), [(PRINTED, ""), (PRINTED.replace("h2", "http/1.1"), LOG), ("", LOG)])
def test_no_answer_over_http2_is_an_error(printed: str, log: str) -> None:
    with pytest.raises(EngineError, match="no answers over HTTP/2") as caught:
        read_h2load(printed, log)
    assert caught.value.diagnostics[0].code == "LB430"


def test_the_authority_is_the_host_and_the_connection_goes_to_the_engine() -> None:
    words = h2load_command("h2load", SHAPE, TARGET, ("127.0.0.1", 99), 2, Path("/log"))
    assert words[1:5] == ["-t1", "-c5", "-m10", "-D2"]
    assert [words[n + 1] for n, word in enumerate(words) if word == "-H"] == [":authority: a.example", "x-new: 1"]
    assert words[-2:] == ["--connect-to=127.0.0.1:99", "https://a.example:99/a?b=1"]
