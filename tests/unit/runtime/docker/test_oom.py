"""What is said of a container that does not come to serve: whether it has too little memory, as docker counts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import InvalidVersion, NotFound

from lbgen.runtime.common import readiness
from lbgen.runtime.common.route_probes import make_probes
from lbgen.runtime.docker.container_engine import memory_hint

MIB = 1 << 20


def container(memory: Any, *, one_shot: bool = True) -> Any:  # stands in for docker's
    """Its counters are `memory`, or it is the error that comes instead."""

    def stats(*_: str, stream: bool, one_shot: bool = False) -> Any:
        assert not stream
        if isinstance(memory, Exception):
            raise memory
        if one_shot and not newer:
            raise InvalidVersion("one_shot is not supported")
        return {"memory_stats": memory}

    newer = one_shot
    return SimpleNamespace(name="c", id="1", stats=stats, client=SimpleNamespace(api=SimpleNamespace(stats=stats)))


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"usage": 31 * MIB, "limit": 32 * MIB}, "it uses 31 of the 32 MiB that containers.memory gives it"),
        ({"usage": 32 * MIB, "limit": 32 * MIB, "stats": {"inactive_file": 20 * MIB}}, ""),
        ({"usage": 32 * MIB, "limit": 32 * MIB, "stats": {"total_inactive_file": 20 * MIB}}, ""),
        ({"usage": 9 * MIB, "limit": 32 * MIB, "failcnt": 7000}, "it has reached the 32 MiB that containers.memory"),
        ({"usage": 40 * MIB, "limit": 2048 * MIB, "failcnt": 0}, ""),
        ({}, ""),  # it does not run any more
        (NotFound("No such container"), ""),
    ],
)
def test_memory_that_is_full_is_told_with_the_remedy(memory: Any, said: str) -> None:
    found = memory_hint(container(memory))
    assert said in found
    assert bool(found) is bool(said)
    assert not found or found.endswith("give it more")


def test_a_daemon_that_knows_no_single_look_is_asked_all_the_same() -> None:
    assert memory_hint(container({"usage": 31 * MIB, "limit": 32 * MIB}, one_shot=False))


def test_it_stands_beside_what_a_route_gave_and_only_where_that_is_wrong(shop: Any) -> None:
    probe = next(each for each in make_probes(shop) if not each.real)
    late = (readiness.Late(probe, "status 503"),)
    [found] = readiness.diagnostics(late, "Envoy", shop, seconds=20, resource_hint=lambda: "it uses 31 of the 32 MiB")
    assert (found.code, found.hint) == ("LB405", "waited 20 s; it uses 31 of the 32 MiB")
    assert readiness.diagnostics(late, "Envoy", shop, seconds=20)[0].hint == "waited 20 s"
    assert readiness.diagnostics((), "Envoy", shop, resource_hint=lambda: pytest.fail("nobody asked")) == ()


@pytest.fixture
def shop() -> Any:
    from tests.support.plans import examples

    return examples()["shop"]
