"""nginx: which locations change what the http block says of buffering."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lbgen.engines.nginx.compression import COMPRESSION
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import HttpForward, UpstreamProtocol
from lbgen.plan.policy import Buffering


@pytest.mark.parametrize(
    ("buffers", "asked", "written"),
    [
        (True, None, ""),
        (True, True, ""),
        (True, False, "off"),
        (False, None, ""),
        (False, True, "on"),
        (False, False, ""),
    ],
)
def test_a_location_says_what_differs(buffers: bool, asked: bool | None, written: str) -> None:
    on = SimpleNamespace(has_tls=not buffers)
    route, action = SimpleNamespace(compression=None), SimpleNamespace(buffering=Buffering(response=asked))
    at = HttpForward(on, None, None, route, action, UpstreamProtocol("proxy", "http", ()))
    lines = COMPRESSION.forward(at)
    assert list(lines) == ([directive("proxy_buffering", written)] if written else [])
