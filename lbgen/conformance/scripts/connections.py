"""Requests on one connection: each is read, routed and edited by itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get, own_status, wait_until
from lbgen.runtime.standins.http1 import CONTROL


def keepalive_routes(ctx: ScriptContext) -> Iterator[str]:
    """On a kept connection each request is routed and edited by itself."""
    with ClientConnection(ctx.at["web"]) as stream:
        for number in range(5):
            answer = stream.ask(get(f"/{number}", ("X-N", str(number))))
            account = account_of(answer)
            if account is None or account["target"] != f"/{number}":
                yield f"request {number} on one connection: {account_field(answer, 'target')}"
                return
            forwarded = [v for n, v in account["headers"] if n.lower() == "x-forwarded-for"]
            if forwarded != ["127.0.0.1"]:
                yield f"request {number} on one connection: X-Forwarded-For {forwarded}"


def request_ids_are_unique(ctx: ScriptContext) -> Iterator[str]:
    """A request id of an untrusted client is replaced by one that no other request has."""
    seen: Counter[str] = Counter()
    with ClientConnection(ctx.at["web"]) as stream:
        for _ in range(10):
            account = account_of(stream.ask(get("/", ("X-Request-Id", "spoofed"))))
            if account is None:
                yield "no answer of an endpoint"
                return
            seen.update(v for n, v in account["headers"] if n.lower() == "x-request-id")
    if len(seen) != 10 or "spoofed" in seen:
        yield f"10 requests had the ids {dict(seen)}"


def ipv4_client_of_both(ctx: ScriptContext) -> Iterator[str]:
    """A client of IPv4 on a listener for both is named by its IPv4 address."""
    host, port = ctx.at[ctx.params["listener"]]
    request = get("/", ("X-Forwarded-For", "192.0.2.1"))
    account = account_of(fetch(("127.0.0.1" if host == "::1" else host, port), request))
    lines = [] if account is None else [v for n, v in account["headers"] if n.lower() == "x-forwarded-for"]
    forwarded = [element.strip() for line in lines for element in line.split(",")]
    if forwarded != ctx.params["forwarded"]:
        yield f"X-Forwarded-For {lines}, expected {ctx.params['forwarded']}"


def few_idle_connections(ctx: ScriptContext) -> Iterator[str]:
    """Of many connections to an endpoint, `keepalive` (1, for each worker) stay when they are idle: the next requests
    need new ones."""
    busy = json.dumps({"mode": "hang", "wait_ms": 500})
    before = 0
    for burst in range(2):
        before = sum(ctx.endpoints.connections.values())
        with ExitStack() as open_:
            streams = [open_.enter_context(ClientConnection(ctx.at["web"])) for _ in range(12)]
            for stream in streams:
                stream.send(serialize(get(f"/{burst}", (CONTROL, busy))))
            if odd := {answer.status for answer in (stream.read_answer() for stream in streams)} - {200}:
                yield f"statuses {odd}"
                return
        time.sleep(0.4)
    if (new := sum(ctx.endpoints.connections.values()) - before) < 6:
        yield f"idle connections: 12 requests at once after 12 others opened {new} new ones, expected 6 at least"


def no_idle_connections(ctx: ScriptContext) -> Iterator[str]:
    """With `keepalive: 0` no connection to an endpoint is kept: each request has its own."""
    name = f"{ctx.params['pool']}-0"
    before = ctx.endpoints.connections[name]
    with ClientConnection(ctx.at["web"]) as stream:
        statuses = {stream.ask(get(f"/{ctx.params['pool']}")).status for _ in range(6)}
    opened = ctx.endpoints.connections[name] - before
    if statuses != {200} or opened != 6:
        yield f"6 requests: statuses {statuses}, {opened} connections, expected 6"


def idle_connections_are_closed(ctx: ScriptContext) -> Iterator[str]:
    """The proxy closes a connection to an endpoint that stays unused: at the latest after `keepalive_idle` and half as
    much again, `seconds` here, for a busy machine. Soon after its request the next one uses it."""
    name, limit = f"{ctx.params['pool']}-0", 1.5 * ctx.params["seconds"]
    busy = json.dumps({"mode": "hang", "wait_ms": 300})
    opened, ended = ctx.endpoints.connections, ctx.endpoints.ended
    with ExitStack() as open_:
        streams = [open_.enter_context(ClientConnection(ctx.at["web"])) for _ in range(8)]
        for stream in streams:
            stream.send(serialize(get(f"/{ctx.params['pool']}", (CONTROL, busy))))
        if odd := {answer.status for answer in (stream.read_answer() for stream in streams)} - {200}:
            yield f"statuses {odd}"
            return
        if ctx.params["seconds"] >= 4:
            before = opened[name]
            time.sleep(0.3)
            streams[0].send(serialize(get(f"/{ctx.params['pool']}")))
            if streams[0].read_answer().status != 200 or opened[name] > before:
                yield f"a request 0.3 s after {before} others opened another connection, or was not answered"
    begun = time.monotonic()
    if not wait_until(lambda: ended[name] == opened[name], limit):
        yield f"{opened[name] - ended[name]} of {opened[name]} idle connections are open after {limit:.1f} s"
    elif (took := time.monotonic() - begun) < 0.1 * ctx.params["seconds"]:
        yield f"the idle connections are closed after {took:.2f} s, expected {ctx.params['seconds']} s"


def keepalive_over(ctx: ScriptContext) -> Iterator[str]:
    """A kept connection on which nothing comes is closed after the keepalive time (700 ms), without an answer."""
    with ClientConnection(ctx.at["keep"]) as stream:
        if stream.ask(get("/")).status != 200:
            yield "no answer to the first request"
            return
        begun = time.monotonic()
        left = stream.read_to_end()
        took = time.monotonic() - begun
        if left:
            yield f"bytes on an idle connection: {left[:100]!r}"
        if stream.end == "open" or not 0.5 <= took <= 3:
            yield f"after {took:.1f} s of idling the connection is {stream.end}, expected closed after 0.7 s"


def keepalive_within(ctx: ScriptContext) -> Iterator[str]:
    """Requests that come within the keepalive time find the connection open, however long it lives."""
    with ClientConnection(ctx.at["keep"]) as stream:
        for number in range(5):
            if (status := stream.ask(get("/")).status) != 200:
                yield f"request {number + 1}, 300 ms after the one before: {status} ({stream.end})"
                return
            time.sleep(0.3)


def keepalive_longer_than_the_body(ctx: ScriptContext) -> Iterator[str]:
    """A kept connection is idle by its own time (5 s), not by that of a body that stops (600 ms)."""
    with ClientConnection(ctx.at["body"]) as stream:
        for number in range(2):
            if (status := stream.ask(get("/")).status) != 200:
                yield f"request {number + 1}, 1.5 s after the one before: {status} ({stream.end})"
                return
            time.sleep(1.5)


def half_a_line_on_a_kept_connection(ctx: ScriptContext) -> Iterator[str]:
    """A later request that stops within its first line: 408 or closed, in its own time (800 ms)."""
    with ClientConnection(ctx.at["head"]) as stream:
        if stream.ask(get("/")).status != 200:
            yield "no answer to the first request"
            return
        time.sleep(1.0)
        begun = time.monotonic()
        stream.send(b"GET /")
        answer = stream.read_answer()
        took = time.monotonic() - begun
        if answer.status is not None and own_status(answer, 408) != 408:
            yield f"status {answer.status}, expected 408 or a closed connection"
        elif (answer.status is None and stream.end == "open") or not 0.6 <= took <= 3:
            yield f"after {took:.1f} s the connection is {stream.end}, expected 408 or closed after 0.8 s"
