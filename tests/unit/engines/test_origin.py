"""Each engine's files say which lbgen made them, of which topology; those read at the start alone do not."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.engines.api import engine_names
from lbgen.version import VERSION

L4 = {"web": {"port": 5432, "mode": "l4"}}
L7 = {"web": {"port": 8080}}


@pytest.mark.parametrize("engine", engine_names())
def test_rendered_files_have_one_line_of_origin(engine: str) -> None:
    data = {
        "version": 1,
        "name": "shop",
        "listeners": L4 if engine in ("keepalived", "nftables") else L7,
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "listeners": ["web"], "forward": "app"}],
    }
    rendered = lbgen.render(lbgen.load(data), engine=engine, accept=("all",))
    line = f"# lbgen {VERSION}, topology shop"
    saying = {name: text.count(line) for name, text in rendered.items() if line in text}
    assert saying
    assert set(saying.values()) == {1}
    assert "traefik.yaml" not in saying  # another version of lbgen must not need a new start
