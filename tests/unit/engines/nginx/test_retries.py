"""nginx: its own retries of gRPC calls."""

from __future__ import annotations

import pytest

import lbgen
from tests.support.plans import topology


def test_a_grpc_call_is_retried_while_nothing_was_sent():
    made = lbgen.load(topology({"retries": {"max": 1, "on": ["connect_failure"]}}, pool={"protocol": "grpc"}))
    assert "grpc_next_upstream error timeout;" in lbgen.render(made, engine="nginx")["nginx.conf"]
    with pytest.raises(lbgen.LbgenError, match="keeps no body for a retry"):
        lbgen.render(
            lbgen.load(topology({"retries": {"max": 1, "on": ["reset"]}}, pool={"protocol": "grpc"})), engine="nginx"
        )
