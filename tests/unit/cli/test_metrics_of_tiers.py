"""`lbgen stats` of a topology with tiers whose replicas serve metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.runtime import registry
from lbgen.runtime.common import stats
from lbgen.runtime.common.state import EngineState, StackState
from lbgen.runtime.tiers.group import Group, Member, as_one_stack

if TYPE_CHECKING:
    import pytest

    from lbgen.runtime.common.stats import RouteStats

PARTS = (("edge", 1, "haproxy", 9100), ("web", 1, "nginx", 9200), ("web", 2, "nginx", 9201))


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/metrics"


def shop() -> StackState:
    members = tuple(Member(tier, number, "shop", engine) for tier, number, engine, _ in PARTS)
    running = tuple(
        StackState(
            member.of.name, "", 0, 0, engines=(EngineState(engine, engine, "1", "", "/nowhere", metrics=url(port)),)
        )
        for member, (_, _, engine, port) in zip(members, PARTS, strict=True)
    )
    return as_one_stack(Group("shop", "local", False, members), running)


def test_stats_reads_every_replica_or_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def fetch(engine: str, at: str) -> tuple[RouteStats, ...]:
        asked.append((engine, at))
        return ()

    monkeypatch.setattr(registry, "find_stack", lambda _: shop())
    monkeypatch.setattr(stats, "fetch", fetch)
    assert CliRunner().invoke(group, ["stats", "shop", "--json"]).exit_code == 0
    assert asked == [(f"{tier}-{number}", url(port)) for tier, number, _, port in PARTS]
    asked.clear()
    assert CliRunner().invoke(group, ["stats", "shop", "-e", "web-2", "--json"]).exit_code == 0
    assert asked == [("web-2", url(9201))]


def test_each_replica_has_its_own_address() -> None:
    assert [(each.name, each.metrics) for each in shop().engines] == [
        (f"{tier}-{number}", url(port)) for tier, number, _, port in PARTS
    ]
