"""When an engine that watches its files has taken a change in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from lbgen.diagnostics import EngineError
from lbgen.engines.health import NO_ADDRESS, Condition, State
from lbgen.plan.model import Endpoint
from lbgen.runtime.common import reload
from tests.support.plans import examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def serving(*hosts: str) -> Any:
    """A plan whose pool has these endpoints."""
    made = examples()["shop"]
    endpoints = tuple(Endpoint(host, 80, 1, "", is_ip=True) for host in hosts)
    return replace(made, pools=(replace(made.pools[0], endpoints=endpoints), *made.pools[1:]))


class Watching:
    """An engine that has the endpoints of the next plan of `has` each time that it is asked."""

    title = "Watching 1.0"

    def __init__(self, wanted: Any, *has: Any) -> None:
        self.plan = wanted
        self.watches_files = True
        self.left = list(has)
        self.asked = 0

    def endpoints(self, pools: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, int], Condition]:
        self.asked += 1
        now = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        there = {(x.name, y.authority) for x in now.pools for y in x.endpoints}
        return {
            (name, place): Condition(State.UP) if (name, address) in there else NO_ADDRESS
            for name, addresses in pools.items()
            for place, address in enumerate(addresses)
        }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "time", SimpleNamespace(sleep=lambda seconds: None, monotonic=reload.time.monotonic))


def test_it_is_waited_for_until_new_endpoints_are_there_and_old_ones_gone() -> None:
    before, after = serving("10.0.0.1", "10.0.0.2"), serving("10.0.0.2", "10.0.0.3")
    live = Watching(after, before, serving("10.0.0.1", "10.0.0.2", "10.0.0.3"), serving("10.0.0.2"), after)
    reload._wait_followed(live, before, 5)  # type: ignore[arg-type]
    assert live.asked == 4


def test_one_that_hears_nothing_is_told_with_what_is_wrong() -> None:
    before, after = serving("10.0.0.1", "10.0.0.2"), serving("10.0.0.1")
    live = Watching(after, before)
    with pytest.raises(EngineError, match=r"Watching 1.0 has not heard of a change .*: 10\.0\.0\.2:80") as caught:
        reload._wait_followed(live, before, 0)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == "LB405"


def test_who_was_told_is_not_asked() -> None:
    before, after = serving("10.0.0.1"), serving("10.0.0.2")
    live = Watching(after, before)
    live.watches_files = False
    reload._wait_followed(live, before, 0)  # type: ignore[arg-type]
    reload._wait_followed(Watching(after, before), after, 0)  # type: ignore[arg-type]  # nothing changed
    assert live.asked == 0
