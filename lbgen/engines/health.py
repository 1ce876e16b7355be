"""How an engine that runs finds its endpoints, in words that all engines share; and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct


class State(StrEnum):
    """`starting`: it came back and gets a growing share; `draining`: weight 0, what is open goes on; `ejected`: its
    answers took it out for a while; `unknown`: nobody can tell."""

    UP = "up"
    STARTING = "starting"
    DRAINING = "draining"
    EJECTED = "ejected"
    DOWN = "down"
    UNKNOWN = "unknown"


class Condition(Struct, frozen=True):
    """`since`: seconds of the epoch, None when the engine does not tell. `reason`: its own words, often empty."""

    state: State
    since: float | None = None
    reason: str = ""


NO_ADDRESS = Condition(State.DOWN, reason="its name has no address")


@runtime_checkable
class Watched(Protocol):
    """An engine that tells how its endpoints are; beside `lbgen.engines.api.Engine`. It is asked by GET on the admin
    port of its plan, which is on its own loopback."""

    status_paths: tuple[str, ...]  # paths, with their queries

    def health(
        self, pools: Mapping[str, Sequence[str]], answers: Mapping[str, str]
    ) -> Mapping[tuple[str, int], Condition]:
        """What the answers, by path, say of each pool's endpoints, by their place in the pool.

        `pools` are their addresses (`host:port`) as the engine was given them. An answer that is not understood says
        nothing.
        """
        ...
