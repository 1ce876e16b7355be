"""HAProxy: retries."""

from __future__ import annotations

import pytest

import lbgen


def _backend(**retries: object) -> str:
    topology = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
        "routes": [{"name": "r", "forward": "p", "retries": {"max": 2, **retries}}],
    }
    return lbgen.render(lbgen.load(topology), engine="haproxy", accept=("all",))["haproxy.cfg"]


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("connect_failure", "conn-failure"),
        ("reset", "empty-response junk-response"),
        ("timeout", "response-timeout"),
        (503, "503"),
    ],
)
def test_each_cause_of_a_retry_stands_for_itself(cause: str | int, words: str) -> None:
    text = _backend(on=[cause])
    assert f"    retries 2\n    option redispatch 1\n    retry-on {words}\n" in text
    once = "http-request disable-l7-retry if !{ method GET HEAD OPTIONS PUT DELETE }"
    assert (once in text) == (cause != "connect_failure")


def test_all_methods_are_sent_again_where_the_route_says_so():
    assert "disable-l7-retry" not in _backend(on=["reset"], methods="all")
