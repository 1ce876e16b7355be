"""`l4_asked` finds a connection that reaches an endpoint, and blames no client for those of checks and probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.conformance.scripts import l4
from lbgen.conformance.scripts.context import ScriptContext
from lbgen.runtime.standins.server import StandInServers

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSED = type("Closed", (), {"raw": b"", "after": "closed", "body": b"", "status": None, "problem": "closed"})()


def complaints(monkeypatch: pytest.MonkeyPatch, connect: Callable[[StandInServers, int], None]) -> list[str]:
    """What the script finds when `connect` does so while a client, whose number it gets, is turned away."""
    pools: dict[str, Any] = {"a": {"endpoints": [{"address": "10.0.0.1:80"}]}}
    pools["checked"] = {"endpoints": [{"address": "10.0.1.1:81"}], "health": {"active": {}}}
    pools["by-port"] = {"endpoints": [{"address": "10.0.2.1:82"}], "health": {"active": {"port": 83}}}
    pools["checker"] = {"endpoints": [{"address": "10.0.2.1:83"}]}
    routes = [
        {"name": x, "listeners": ["db"], "sources": [f"10.{n}.0.0/16"], "forward": x} for n, x in enumerate(pools)
    ]
    plan = lbgen.plan(
        lbgen.load(
            {
                "version": 1,
                "name": "x",
                "listeners": {"db": {"port": 5432, "mode": "l4"}},
                "pools": pools,
                "routes": routes,
            }
        )
    )
    servers, asked = StandInServers(()), []

    def fetch(*_: object, **__: object) -> object:
        asked.append(1)
        connect(servers, len(asked))
        return CLOSED

    monkeypatch.setattr(l4, "fetch", fetch)
    params = {"listener": "db", "clients": {"127.0.0.1": ""}}
    return list(l4.l4_asked(ScriptContext({"db": ("127.0.0.1", 1)}, servers, plan, list, params)))


@pytest.mark.parametrize("name", ["a-0", "by-port-0"])
def test_a_connection_that_reaches_an_endpoint_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = complaints(monkeypatch, lambda servers, _: servers.connections.update([name]))
    assert found == [f"127.0.0.1: a connection to ['{name}'], expected none"]


@pytest.mark.parametrize("name", ["checked-0", "checker-0"])
def test_those_of_checks_are_no_clients(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert complaints(monkeypatch, lambda servers, _: servers.connections.update([name])) == []


def test_one_that_comes_late_is_no_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints(monkeypatch, lambda servers, turn: servers.connections.update(["a-0"] if turn == 1 else [])) == []
