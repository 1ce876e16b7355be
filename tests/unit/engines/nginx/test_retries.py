"""nginx: its own retries, by cause."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import lbgen
from lbgen.engines.nginx.retries import RETRIES
from lbgen.engines.nginx.view import HttpForward
from lbgen.plan.policy import Retries, RetryCause

CONNECT, RESET, TIMEOUT = RetryCause.CONNECT_FAILURE, RetryCause.RESET, RetryCause.TIMEOUT


@pytest.mark.parametrize(
    ("policy", "conditions"),
    [
        (Retries(1, frozenset({CONNECT}), ()), "error timeout"),
        (Retries(1, frozenset({CONNECT}), (), all_methods=True), "error timeout"),
        (Retries(1, frozenset({RESET}), (503,)), "error http_503"),
        (Retries(1, frozenset({TIMEOUT}), (), all_methods=True), "timeout non_idempotent"),
        (Retries(1, frozenset(), (502, 504)), "http_502 http_504"),
    ],
)
def test_conditions_and_tries(policy, conditions):
    at = HttpForward(None, SimpleNamespace(retries=policy), "proxy", buffers=True)
    written, tries = ([x.text for x in line.args] for line in RETRIES.forward(at))
    assert (written, tries) == (conditions.split(), ["2"])


def topology(retries: dict, **pool) -> dict:
    return {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}], **pool}},
        "routes": [{"name": "r", "forward": "p", "retries": retries}],
    }


def test_a_location_retries_by_itself():
    text = lbgen.render(lbgen.load(topology({"max": 2, "on": ["connect_failure", 503]})), engine="nginx")["nginx.conf"]
    assert "proxy_next_upstream error timeout http_503;" in text
    assert "proxy_next_upstream_tries 3;" in text
    assert "error_page" not in text


def test_a_grpc_call_is_retried_while_nothing_was_sent():
    made = lbgen.load(topology({"max": 1, "on": ["connect_failure"]}, protocol="grpc"))
    assert "grpc_next_upstream error timeout;" in lbgen.render(made, engine="nginx")["nginx.conf"]
    with pytest.raises(lbgen.LbgenError, match="keeps no body for a retry"):
        lbgen.render(lbgen.load(topology({"max": 1, "on": ["reset"]}, protocol="grpc")), engine="nginx")
