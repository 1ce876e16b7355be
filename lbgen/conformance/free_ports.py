"""Free TCP ports of this host for engines and stand-ins, none of them twice."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lbgen.runtime.common.ports import free_port

FIRST_PORT = "LBGEN_CONFORMANCE_PORTS"  # environment: first port to try


class FreePorts:
    """Hands out ports, ascending; `avoid` are those that it leaves out."""

    def __init__(self, avoid: Iterable[int] = ()) -> None:
        self._avoid = frozenset(avoid)
        self._next = int(os.environ.get(FIRST_PORT, "0"))

    def take(self) -> int:
        """The next port that is free on every address. EngineError LB404 when there is none."""
        found = free_port("0.0.0.0", self._next, self._avoid)  # noqa: S104  # engines listen on all addresses
        self._next = found + 1
        return found
