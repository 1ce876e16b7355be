"""Bytes over layer 4."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lbgen.conformance.probe import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage


def l4_large(stage: Stage) -> Iterator[str]:
    """A megabyte of all byte values comes back unchanged."""
    sent = bytes(itertools.islice(itertools.cycle(range(256)), 1 << 20))
    with Stream(stage.at["echo"], timeout=10) as stream, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            stream.send(sent)
            stream.shut()

        future = pool.submit(send)
        got = stream.rest()
        future.result()
    if got != sent + b"end of raw-0\n":
        yield f"{len(got)} bytes came back, {len(sent) + 13} expected"


def l4_idle(stage: Stage) -> Iterator[str]:
    """A connection without traffic for the idle time (700 ms) is closed."""
    with Stream(stage.at["quiet"]) as stream:
        stream.send(b"x")
        if stream.exactly(1) != b"x":
            yield "no echo"
        begun = time.monotonic()
        while stream.fill():
            pass
        took = time.monotonic() - begun
        if stream.end == "open" or not 0.4 <= took <= 2.5:
            yield f"after {took:.1f} s of silence the connection is {stream.end}, expected closed after 0.7 s"


def l4_traffic_keeps(stage: Stage) -> Iterator[str]:
    """Traffic within the idle time keeps a connection open."""
    with Stream(stage.at["quiet"]) as stream:
        for _ in range(4):
            time.sleep(0.35)
            stream.send(b"y")
            if stream.exactly(1) != b"y":
                yield "the connection died although it was used every 350 ms"
                return
