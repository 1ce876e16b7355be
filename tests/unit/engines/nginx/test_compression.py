"""nginx: which locations change what the http block says of buffering."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lbgen.engines.nginx.compression import response_lines
from lbgen.engines.nginx.strings import directive


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
    action = SimpleNamespace(buffering=SimpleNamespace(response=asked))
    lines = response_lines(SimpleNamespace(compression=None), action, "proxy", buffers=buffers)
    assert lines == ((directive("proxy_buffering", written),) if written else ())
