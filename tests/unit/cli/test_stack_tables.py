"""The tables of `lbgen ps`: at every width whole names and states, and each reason once for an engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.console import Console

from lbgen.cli.stacks import health_table, stacks_table
from lbgen.runtime.common.health import EndpointHealth

STATES = ("up", "unknown", "unknown", "draining", "unknown", "unknown")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut(width: int) -> None:
    health = tuple(
        EndpointHealth("site", f"127.0.0.1:900{i}", f"10.214.1.250:2600{i}", state, None, "no check" * (state != "up"))
        for i, state in enumerate(STATES)
    )
    address = SimpleNamespace(listener="steady", url="http://127.0.0.1:12300")
    engine = SimpleNamespace(name="traefik", version="3.7.15", running=True, restarts=0, ended="", pid=12345)
    engine.metrics, engine.addresses = "http://127.0.0.1:9100/metrics", (address,)
    stacks = [
        SimpleNamespace(name=name, engines=[engine], health=lambda: {"traefik": health})
        for name in ("a-stack-with-a-long-name", "shop")
    ]
    screen = Console(width=width)
    with screen.capture() as shown:
        screen.print(stacks_table(stacks))
        screen.print(health_table(stacks))
    text = shown.get()
    assert "\u2026" not in text
    for whole in ("listener", "metrics", "steady", "unknown", "draining", "10.214.1.250:26000", engine.metrics):
        assert whole in text, whole
    # Notes wrap between words.
    note = "shop traefik, site 127.0.0.1:9001, site 127.0.0.1:9002, site 127.0.0.1:9003 and 2 more: no check"
    assert " ".join(text.split()).count(note) == 1
