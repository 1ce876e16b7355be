"""nginx: its own retries, by cause."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.plan.policy import RetryCause

CONNECT, RESET, TIMEOUT = RetryCause.CONNECT_FAILURE, RetryCause.RESET, RetryCause.TIMEOUT


def topology(retries: dict, **pool) -> dict:
    return {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}], **pool}},
        "routes": [{"name": "r", "forward": "p", "retries": retries}],
    }


def test_a_grpc_call_is_retried_while_nothing_was_sent():
    made = lbgen.load(topology({"max": 1, "on": ["connect_failure"]}, protocol="grpc"))
    assert "grpc_next_upstream error timeout;" in lbgen.render(made, engine="nginx")["nginx.conf"]
    with pytest.raises(lbgen.LbgenError, match="keeps no body for a retry"):
        lbgen.render(lbgen.load(topology({"max": 1, "on": ["reset"]}, protocol="grpc")), engine="nginx")
