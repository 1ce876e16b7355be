"""Connections that the kernel counts for an engine of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct


class Counts(Struct, frozen=True):
    """Connections (over UDP: flows) that were forwarded since the rules were loaded: by listener and route, and by the
    endpoint's address (`host:port`)."""

    routes: Mapping[tuple[str, str], int]
    endpoints: Mapping[str, int]


@runtime_checkable
class Counting(Protocol):
    """An engine whose connections the kernel counts; beside `lbgen.engines.api.Engine`."""

    counts_argv: tuple[str, ...]  # run where its rules are

    def counts(self, said: str) -> Counts:
        """What that command said. Raises ValueError or LookupError for anything else."""
        ...
