"""Checks of any L4 route; listeners, clients and times are parameters. The endpoints echo bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.scripts.context import ScriptContext, exchange_datagram, wait_until
from lbgen.conformance.scripts.topology_timeouts import ends_in_time
from lbgen.conformance.transport import HandshakeError, TransportOptions, client_hello, without_verification
from lbgen.plan.request import Request


def bytes_reach(ctx: ScriptContext) -> Iterator[str]:
    """Bytes come back from an endpoint of the right pools, and half-close is kept; without one the connection ends.
    Where TLS passes through, they are the hello of a client that says `sni`."""
    pools, sent = ctx.params["pools"], _first(ctx)
    before = ctx.endpoints.connections.copy()
    try:
        with _stream(ctx) as stream:
            stream.send(sent)
            got = stream.read_exactly(len(sent)) or b"" if pools else b""  # a client of TLS waits for an answer
            if not stream.secure:  # a TLS connection has no half
                stream.shutdown_write()
            if not (stream.secure and got):
                got += stream.read_to_end()
            end = stream.end
    except HandshakeError as error:
        if pools:
            yield f"no answer: {error}"
        return
    if not got and end == "open":
        yield "the connection stays open"
    word = got.removeprefix(sent).decode("latin-1").strip()
    asked = {name.rpartition("-")[0] for name in ctx.endpoints.connections - before}
    if not pools and got:
        yield f"{got!r} came back, expected a closed connection"
    elif pools and not got.startswith(sent):
        yield f"no answer: {got!r} came back, expected one of {' or '.join(pools)}"
    elif pools and not asked & set(pools):
        yield f"went to {sorted(asked)}, expected {' or '.join(pools)}"
    elif pools and not stream.secure and not any(word.startswith(f"end of {pool}-") for pool in pools):
        yield f"half-close: {got!r} came back, expected the end of {' or '.join(pools)}"
    elif pools and not stream.secure and end == "open":
        yield "the connection stays open"


def datagrams_reach(ctx: ScriptContext) -> Iterator[str]:
    """Datagrams come back from an endpoint of the right pools, unchanged; else nothing comes."""
    address, client, pools = ctx.at[ctx.params["listener"]], ctx.params["client"], ctx.params["pools"]
    if pools and not wait_until(lambda: exchange_datagram(address, b"x", client) is not None):
        yield "no answer to a datagram"
        return
    before = ctx.endpoints.requests.copy()
    for data in (b"hello", bytes(range(256)), 1_200 * b"y"):
        got = exchange_datagram(address, data, client)
        name, _, rest = (got or b"").partition(b": ")
        if not pools and got is not None:
            yield f"{got[:60]!r} came back, expected nothing"
        elif pools and (rest != data or name.decode().rpartition("-")[0] not in pools):
            yield f"{None if got is None else got[:60]!r} came back, expected {len(data)} bytes of {' or '.join(pools)}"
    if not pools and ctx.endpoints.requests != before:
        yield f"asked {dict(ctx.endpoints.requests - before)}, expected none"


def _first(ctx: ScriptContext) -> bytes:
    """What a client sends first."""
    tls = ctx.plan.listener(ctx.params["listener"]).tls
    if tls is None or not tls.passthrough:
        return b"hello"
    return client_hello(ctx.params["sni"])


def bytes_idle(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A silent connection is closed in time; so is one that the endpoint never answered (`mute`: it does not), and one
    whose client has ended its side (`half`)."""
    with _stream(ctx) as stream:
        sent = _first(ctx)
        earliest = time.monotonic()
        stream.send(sent)
        if ctx.params["half"]:
            time.sleep(0.04)  # by then it is with the endpoint
            earliest = time.monotonic()
            stream.shutdown_write()
        elif not ctx.params["mute"] and stream.read_exactly(len(sent)) != sent:
            yield "no echo"
            return
        yield from ends_in_time(stream, ctx, "the connection", earliest)


def bytes_connect(ctx: ScriptContext) -> Iterator[Difference | str]:
    """When no endpoint answers, the client's connection ends after the connect time."""
    low, high = ctx.params["within_ms"]
    begun = time.monotonic()
    try:
        with _stream(ctx) as stream:
            stream.send(_first(ctx))
            stream.read_to_end()
            end = stream.end
    except TimeoutError:
        yield f"connecting timed out, expected the end after {low} to {high} ms"
        return
    except OSError:  # an engine in the kernel hands on what the endpoint does
        end = "closed"
    took = (time.monotonic() - begun) * 1000
    if end == "open":
        yield late(f"after {took:.0f} ms the connection is open, expected its end after {low} to {high}")
    elif not low <= took <= high:
        yield late(f"took {took:.0f} ms, expected {low} to {high}")


def _stream(ctx: ScriptContext) -> ClientConnection:
    listener = ctx.plan.listener(ctx.params["listener"])
    client = ctx.params["client"]
    asked = without_verification(listener)
    if isinstance(asked.tls, dict):
        asked = TransportOptions(tls={**asked.tls, "sni": ctx.params["sni"]})
    transport = ctx.transport(listener.name, Request(client=client), asked)
    seconds = ctx.params.get("within_ms", (0, 2000))[1] / 1000 + 2
    return ClientConnection(ctx.at[listener.name], client=client, timeout=seconds, transport=transport)
