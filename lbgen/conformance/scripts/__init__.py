"""Cases that one answer cannot tell: each function talks to a running engine and yields what is wrong.

A case names one by `script: NAME`; every public function of the modules listed here is one.
"""

from __future__ import annotations

from inspect import isfunction
from typing import TYPE_CHECKING

from lbgen.conformance.scripts import (
    balance,
    connections,
    failures,
    http2_streams,
    l4,
    secure,
    sizes,
    tunnels,
    wires,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.conformance.scripts.stage import Stage


_TOPICS = (
    balance,
    connections,
    failures,
    http2_streams,
    l4,
    secure,
    sizes,
    tunnels,
    wires,
)

SCRIPTS: dict[str, Callable[[Stage], Iterator[str]]] = {
    name: found
    for topic in _TOPICS
    for name, found in vars(topic).items()
    if isfunction(found) and found.__module__ == topic.__name__ and not name.startswith("_")
}
