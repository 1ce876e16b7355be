"""What holds of any L4 route; listeners, clients and times come as parameters. Its endpoints send bytes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lbgen.conformance.probe import Stream
from lbgen.conformance.wires import unverified
from lbgen.plan.simulate import Request
from lbgen.runtime.standin import Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage


def bytes_reach(stage: Stage) -> Iterator[str]:
    """Bytes come back from an endpoint of the right pools, and half-close is kept; without one the connection ends."""
    pools = stage.params["pools"]
    with _stream(stage) as stream:
        stream.send(b"hello")
        stream.shut()
        got = stream.rest()
        if stream.end == "open":
            yield "the connection stays open"
    told = got.removeprefix(b"hello").decode("latin-1").strip()
    if not pools and got:
        yield f"{got!r} came back, expected a closed connection"
    elif pools and not any(told.startswith(f"end of {pool}-") for pool in pools):
        yield f"{got!r} came back, expected an answer of {' or '.join(pools)}"


def bytes_idle(stage: Stage) -> Iterator[str]:
    """A silent connection is closed in time; so is one that the endpoint never answered (`mute`), and one whose client
    has ended its side (`half`)."""
    low, high = stage.params["within_ms"]
    names = [x.name for x in stage.endpoints.stand_ins if x.pool in stage.params["pools"]]
    if stage.params["mute"]:
        for name in names:
            stage.endpoints.behave(name, Behaviour("mute"))
    try:
        with _stream(stage) as stream:
            stream.send(b"x")
            if stage.params["half"]:
                stream.shut()
            elif not stage.params["mute"] and stream.exactly(1) != b"x":
                yield "no echo"
                return
            begun = time.monotonic()
            stream.rest()
            took = (time.monotonic() - begun) * 1000
            if stream.end == "open":
                yield f"after {took:.0f} ms of silence the connection is open, expected its end after {low} to {high}"
            elif not low <= took <= high:
                yield f"took {took:.0f} ms, expected {low} to {high}"
    finally:
        for name in names:
            stage.endpoints.behave(name, Behaviour("echo"))


def bytes_connect(stage: Stage) -> Iterator[str]:
    """When no endpoint answers, the client's connection ends after the connect time."""
    low, high = stage.params["within_ms"]
    begun = time.monotonic()
    try:
        with _stream(stage) as stream:
            stream.send(b"x")
            stream.rest()
            end = stream.end
    except TimeoutError:
        yield f"connecting timed out, expected the end after {low} to {high} ms"
        return
    except OSError:  # an engine in the kernel hands on what the endpoint does
        end = "closed"
    took = (time.monotonic() - begun) * 1000
    if end == "open":
        yield f"after {took:.0f} ms the connection is open, expected its end after {low} to {high}"
    elif not low <= took <= high:
        yield f"took {took:.0f} ms, expected {low} to {high}"


def _stream(stage: Stage) -> Stream:
    listener = stage.plan.listener(stage.params["listener"])
    client = stage.params["client"]
    via = stage.via(listener.name, Request(client=client), unverified(listener))
    seconds = stage.params.get("within_ms", (0, 2000))[1] / 1000 + 2
    return Stream(stage.at[listener.name], client=client, timeout=seconds, wire=via)
