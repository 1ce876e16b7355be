"""Connections of clients and to endpoints: what is kept, what is tried again, and on which of them."""

from __future__ import annotations

import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import uuid4

from msgspec.structs import replace

from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    ScriptContext,
    behaving,
    control,
    get,
    own_status,
    require,
    wait_until,
)
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.standins.stand_in import Behaviour


def request_ids_are_unique(ctx: ScriptContext) -> None:
    """A request id of an untrusted client is replaced by one that no other request has."""
    seen: Counter[str] = Counter()
    with ctx.connect() as stream:
        for _ in range(10):
            account = account_of(stream.ask(get("/", ("X-Request-Id", "spoofed"))))
            if account is not None:
                seen.update(v for n, v in account["headers"] if n.lower() == "x-request-id")
    require(len(seen) == 10 and "spoofed" not in seen, f"10 requests had the ids {dict(seen)}")


def ipv4_client_of_both(ctx: ScriptContext) -> None:
    """A client of IPv4 on a listener for both is named by its IPv4 address."""
    host, port = ctx.at[ctx.listener]
    request = get("/", ("X-Forwarded-For", "192.0.2.1"))
    account = account_of(fetch(("127.0.0.1" if host == "::1" else host, port), request))
    lines = [] if account is None else [v for n, v in account["headers"] if n.lower() == "x-forwarded-for"]
    forwarded = [element.strip() for line in lines for element in line.split(",")]
    require(forwarded == ctx.params["forwarded"], f"X-Forwarded-For {lines}, expected {ctx.params['forwarded']}")


def proxy_header_per_client(ctx: ScriptContext) -> Iterator[str]:
    """A connection to an endpoint is used for no other client than its PROXY header names."""
    for path, version in (("/v1", 1), ("/v2", 2)):
        for number in range(6):
            client = f"127.0.0.{10 + number % 3}"
            account = account_of(ctx.ask(replace(get(path), client=client)))
            told = account and account["proxy"]
            if not told or (told["version"], told["source"]) != (version, client):
                yield f"{path} from {client}: the endpoint was told {told}"


def response_of_many_lines(ctx: ScriptContext) -> None:
    """A response of 150 header lines, about 3 KiB, reaches the client whole."""
    lines = tuple((f"x-line-{number}", str(number)) for number in range(150))
    with behaving(ctx, ctx.params["name"], Behaviour("fixed", headers=lines)):
        answer = ctx.ask(get("/"))
    require(answer.status == 200, f"{answer.status} {answer.problem}, expected 200")
    lost = [name for name, value in lines if answer.header(name) != value]
    require(not lost, f"{len(lost)} lines are missing or differ, {lost[:1]} among them")


def _ask_at_once(ctx: ScriptContext, stack: ExitStack, target: str, count: int, wait_ms: int) -> ClientConnection:
    """So many requests under way at a time, on connections that stay open for the length of `stack`; one of these."""
    streams = [stack.enter_context(ctx.connect()) for _ in range(count)]
    for stream in streams:
        stream.send(serialize(get(target, control(mode="hang", wait_ms=wait_ms))))
    odd = {answer.status for answer in (stream.read_answer() for stream in streams)} - {200}
    require(not odd, f"statuses {odd}")
    return streams[0]


def few_idle_connections(ctx: ScriptContext) -> None:
    """Of many connections to an endpoint, `keepalive` (1, for each worker) stay when they are idle: the next requests
    need new ones."""
    before = 0
    for burst in range(2):
        before = sum(ctx.endpoints.connections.values())
        with ExitStack() as stack:
            _ask_at_once(ctx, stack, f"/{burst}", 12, 500)
        time.sleep(0.4)
    new = sum(ctx.endpoints.connections.values()) - before
    require(
        new >= 6, f"idle connections: 12 requests at once after 12 others opened {new} new ones, expected 6 at least"
    )


def no_idle_connections(ctx: ScriptContext) -> None:
    """With `keepalive: 0` no connection to an endpoint is kept: each request has its own."""
    before = ctx.endpoints.connections[ctx.endpoint(0)]
    with ctx.connect() as stream:
        statuses = {stream.ask(get(ctx.target)).status for _ in range(6)}
    opened = ctx.endpoints.connections[ctx.endpoint(0)] - before
    require(statuses == {200} and opened == 6, f"6 requests: statuses {statuses}, {opened} connections, expected 6")


def idle_connections_are_closed(ctx: ScriptContext) -> None:
    """The proxy closes a connection to an endpoint that stays unused: at the latest after `keepalive_idle` and half as
    much again, `seconds` here, for a busy machine. Soon after its request the next one uses it."""
    name, seconds = ctx.endpoint(0), ctx.params["seconds"]
    opened, ended = ctx.endpoints.connections, ctx.endpoints.ended
    with ExitStack() as stack:
        stream = _ask_at_once(ctx, stack, ctx.target, 8, 300)
        if seconds >= 4:
            before = opened[name]
            time.sleep(0.3)
            used = stream.ask(get(ctx.target)).status == 200 and opened[name] == before
            require(used, f"a request 0.3 s after {before} others opened another connection, or was not answered")
    begun = time.monotonic()
    sentence = f"{opened[name] - ended[name]} of {opened[name]} idle connections are open after {1.5 * seconds:.1f} s"
    require(wait_until(lambda: ended[name] == opened[name], 1.5 * seconds), sentence)
    took = time.monotonic() - begun
    require(took >= 0.1 * seconds, f"the idle connections are closed after {took:.2f} s, expected {seconds} s")


def tls_resumes(ctx: ScriptContext) -> None:
    """A resumed session is served like a new one where the client shows its certificate, and only there."""
    folder, shown = temporary_certificates(), ctx.params.get("certificate")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        tls.minimum_version = tls.maximum_version = version
        if shown:
            tls.load_cert_chain(folder / f"{shown}.crt", folder / f"{shown}.key")
        session = None
        for what in ("first connection", "connection that offers a session"):
            try:
                with (
                    socket.create_connection(ctx.at[ctx.listener], timeout=5) as plain,
                    tls.wrap_socket(plain, server_hostname="shop.example", session=session) as sock,
                ):
                    sock.sendall(b"GET /ok HTTP/1.1\r\nHost: shop.example\r\n\r\n")
                    status, session = sock.recv(65536)[9:12].decode("latin-1"), sock.session
            except OSError as error:
                status = str(error)
            require(status == "200", f"{version.name}: {what}: {status}")


def one_attempt(ctx: ScriptContext) -> Iterator[str]:
    """Without retries a failed request was sent once."""
    for target in ("/two", "/p"):
        for mode in ("close", "reset", "garbage", "hang"):
            before = ctx.asked
            answer = ctx.ask(get(target, control(mode=mode)))
            time.sleep(0.1)
            if (tries := ctx.asked - before) != 1:
                yield f"{target}, endpoint does {mode}: {tries} tries, answer {answer.status}"


def keyed_posts(ctx: ScriptContext) -> Iterator[str]:
    """A request with a key for its repeats is repeated by its client alone, also where a kept connection breaks."""
    for name in ("idempotency-key", "x-idempotency-key"):
        tag = uuid4().hex
        with ctx.connect() as stream:
            for _ in range(4):
                stream.ask(get("/reset"))
            stream.ask(get("/reset", (name, "1"), control(mode="close", tag=tag), method="POST"))
        if (count := len(ctx.endpoints.tagged(tag))) != 1:
            yield f"a POST with {name} reached endpoints {count} times, expected once"


def further_tries_reach_others(ctx: ScriptContext) -> Iterator[str]:
    """Of many requests at a time none comes back to an endpoint while another one has not been tried."""
    failing = {"mode": "fixed", "status": 503}
    tags = [uuid4().hex for _ in range(60)]
    requests = [get(ctx.target, ("x-key", tag), control(tag=tag, steps=[failing, failing, {}])) for tag in tags]
    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(lambda request: ctx.ask(request).status, requests))
    if set(statuses) != {200}:
        yield f"answers {dict(statuses)}, expected 200"
    tries = [[one.name for one in ctx.endpoints.tagged(tag)] for tag in tags]
    if again := [names for names in tries if len(set(names)) < len(names)]:
        yield f"{len(again)} of {len(tags)} requests came back to an endpoint that had failed: {', '.join(again[0])}"


def no_try_for_nobody(ctx: ScriptContext) -> None:
    """Where the client leaves within the response time (500 ms) of the first try, there is no second."""
    tag = uuid4().hex
    with ctx.connect() as stream:
        stream.send(serialize(get(ctx.target, control(mode="hang", tag=tag))))
        wait_until(lambda: ctx.endpoints.tagged(tag), 0.3)
    time.sleep(1.2)
    tries = len(ctx.endpoints.tagged(tag))
    require(tries == 1, f"{tries} tries, expected 1: the client had left")


def retry_budget(ctx: ScriptContext) -> Iterator[str]:
    """Of many requests that fail at a time only a share is tried again (25 %; up to three at a time may be free)."""
    tag, count = uuid4().hex, 16
    request = get("/budget", control(mode="hang", tag=tag))
    with ThreadPoolExecutor(count) as pool:
        statuses = list(pool.map(lambda _: own_status(ctx.ask(request), 504), range(count)))
    if statuses != [504] * count:
        yield f"answers {statuses}, expected 504"
    if not count < (tries := len(ctx.endpoints.tagged(tag))) <= 36:
        yield f"{count} requests at a time, all of which time out, with 3 retries: {tries} tries, expected 17 to 36"
