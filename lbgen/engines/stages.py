"""Changes that an engine takes over file by file while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct


class Taken(Struct, frozen=True):
    """What an engine made of a stage. `missing`: files that it has not taken over yet; `settled`: whether what came
    with them has passed or failed its first checks; `refusals`: how many changes it has refused since it started."""

    missing: tuple[str, ...]
    settled: bool
    refusals: int


@runtime_checkable
class Staged(Protocol):
    """An engine whose watched files are to be replaced in an order; beside `lbgen.engines.api.Engine`. It is asked by
    GET on the admin port of its plan."""

    taken_paths: tuple[str, ...]  # paths, with their queries

    def stages(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
        """The texts to write, by file name, one stage after the other, to get from the watched files `before` to
        `after` without the loss of a request. Names that are in no stage need no order."""
        ...

    def taken(self, stage: Mapping[str, str], answers: Mapping[str, str]) -> Taken:
        """What the answers, by path, say of a stage that was written."""
        ...
