"""Malformed requests: smuggling, endless heads, bytes that never arrive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from lbgen.conformance.http1_client import ClientConnection, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get

_SECONDS = 7.0  # the listener's times for clients are 1.5 s; some engines add to them
_TOGETHER = 6
_PAUSE = 0.05  # seconds between pieces that shall be read one by one
_BAD = (b"", b"GET / HT", b"\xff\xfe\x00", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
# Refused, or given up as the rest does not come. An engine that passes bodies on as they come blames the endpoint's
# side for one that breaks off, and may stop for a client that has ended its own.
_REFUSALS = (400, 408, 411, 413, 414, 417, 421, 431, 501, 502, 504, 505)


def smuggling(ctx: ScriptContext) -> Iterator[str]:
    """What stands behind an ambiguous request is never read as another one, and none hangs."""
    payloads = ctx.params["payloads"]
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for found in pool.map(lambda payload: list(_payload(ctx, payload)), payloads):
            yield from found


def _payload(ctx: ScriptContext, payload: str) -> Iterator[str]:
    tag = uuid4().hex[:8]
    first, second = f"/first-{tag}", f"/second-{tag}"
    text = payload.replace("<first>", first).replace("<second>", f"GET {second} HTTP/1.1\r\nHost: h\r\n\r\n")
    with ClientConnection(ctx.at["web"], timeout=_SECONDS) as stream:
        stream.send(text.encode("latin-1"))
        answer = stream.read_answer()
        if answer.status is not None:
            stream.read_to_end()
    reached = [one.target for one in tuple(ctx.endpoints.seen) if tag in one.target]
    if any(second in target for target in reached):
        yield f"{payload!r}: the second request reached an endpoint: {reached}"
    if stream.end == "open":
        yield f"{payload!r}: after {_SECONDS:g} s the connection is open ({answer.status} {answer.problem})"


def hidden_head(ctx: ScriptContext) -> Iterator[str]:
    """A head that ends like requests before it on the connection is judged as a whole, wherever it is cut: its target
    is refused, and fields with an underscore or that Connection names reach no endpoint."""
    line, rest = b"GET /usual HTTP/1.1\r\n", b"Host: h\r\nX-Hop: 1\r\nConnection: keep-alive\r\n\r\n"
    hidden = b"X_Under: 1\r\nConnection: x-hop\r\n"
    page = b"X-A: " + b"y" * (4096 - 5)  # as much as some servers read at once
    twice = b"X-B: 1\r\n" * 3 + rest  # as many lines as there are fields in all
    ends = {"as before": line + rest, "with fields twice": line + twice}
    for requests, (what, end) in ((n, each) for n in (0, 1, 3) for each in ends.items()):
        for first in (b"GET /odd//hidden HTTP/1.1\r\n", line):
            for cut, parts in {"a long line": [page + end], "a folded line": [b"X-A: y\r\n ", end]}.items():
                with ClientConnection(ctx.at["web"], timeout=2) as stream:
                    for _ in range(requests):
                        stream.send(line + rest)
                        stream.read_answer()
                    stream.send(first + hidden + parts[0])
                    for part in parts[1:]:
                        time.sleep(_PAUSE)
                        stream.send(part)
                    account = account_of(stream.read_answer())
                if account is None:
                    continue
                names = {name.lower() for name, _ in account["headers"]}
                wrong = sorted(names & {"x_under", "x-hop"}) + [account["target"]] * (first != line)
                if wrong:
                    yield f"{first!r}, {cut}, {what}, after {requests} requests: the endpoint saw {wrong}"


def hostile_trailers(ctx: ScriptContext) -> Iterator[str]:
    """Fields behind a chunked body never become headers, however they are called."""
    for field in ("Host: evil", "Content-Length: 9", "X-Forwarded-For: 6.6.6.6", "Connection: x", "X-Request-Id: 1"):
        name, _, value = field.partition(": ")
        body = f"3\r\nabc\r\n0\r\n{field}\r\n\r\n"
        with ClientConnection(ctx.at["web"], timeout=_SECONDS) as stream:
            stream.send(f"POST /t HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}".encode())
            answer = stream.read_answer()
        account = account_of(answer)
        if account is None:
            if answer.status not in (None, 400):
                yield f"trailer {field!r}: status {answer.status}"
            continue
        if (account["body_length"], account["method"]) != (3, "POST"):
            yield f"trailer {field!r}: the endpoint saw {account['method']} with {account['body_length']} bytes"
        if value in [v for n, v in account["headers"] if n.lower() == name.lower()]:
            yield f"trailer {field!r} became a header"


def hostile_sizes(ctx: ScriptContext) -> Iterator[str]:
    """Heads of 2 MiB, however cut into lines, are refused in time and reach no endpoint."""
    size = 2 << 20
    heads = {
        "one header": b"GET /big HTTP/1.1\r\nHost: h\r\nX: " + b"a" * size + b"\r\n\r\n",
        "many headers": b"GET /big HTTP/1.1\r\nHost: h\r\n" + b"X-A: 123456\r\n" * (size // 13) + b"\r\n",
        "the target": b"GET /big" + b"a" * size + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        "the method": b"A" * size + b" /big HTTP/1.1\r\nHost: h\r\n\r\n",
        "a head without end": b"GET /big HTTP/1.1\r\nHost: h\r\nX: " + b"a" * size,
        "blank lines": b"\r\n" * (size // 2) + b"GET /big HTTP/1.1\r\n\r\n",
        "a chunk size": b"POST /big HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * size,
        "a chunk extension": b"POST /big HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * size,
    }
    for what, head in heads.items():
        with ClientConnection(ctx.at["web"], timeout=_SECONDS) as stream:
            stream.send(head)
            answer = stream.read_answer()
            if answer.status is not None:
                stream.read_to_end()
        if account_of(answer) is not None:
            yield f"{what} of {size} bytes reached an endpoint"
        elif answer.status is not None and answer.status not in _REFUSALS:
            yield f"{what} of {size} bytes: status {answer.status}"
        elif stream.end == "open":
            yield f"{what} of {size} bytes: after {_SECONDS:g} s the connection is open"


def hostile_half_closed(ctx: ScriptContext) -> Iterator[str]:
    """A client that ends its side gets its answer or an end; half a request never reaches an endpoint as a whole."""
    for what, data, whole in (
        ("a request", b"GET /whole HTTP/1.1\r\nHost: h\r\n\r\n", True),
        ("half a head", b"GET /half HTTP/1.1\r\nHost: h\r\nX: ", False),
        ("half a body", b"POST /half HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", False),
        ("half a chunk", b"POST /half HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc", False),
        ("no last chunk", b"POST /half HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", False),
        ("nothing", b"", False),
    ):
        before = sum(one.target == "/half" for one in tuple(ctx.endpoints.seen))
        with ClientConnection(ctx.at["web"], timeout=_SECONDS) as stream:
            stream.send(data)
            stream.shutdown_write()
            answer = stream.read_answer()
            if answer.status is not None:
                stream.read_to_end()
        if stream.end == "open":
            yield f"{what}, then the end: after {_SECONDS:g} s the connection is open"
        if whole and answer.status not in (None, 200, *_REFUSALS):
            yield f"{what}, then the end: status {answer.status}"
        if not whole and answer.status is not None and answer.status not in _REFUSALS:
            yield f"{what}, then the end: status {answer.status}"
        time.sleep(0.1)
        if sum(one.target == "/half" for one in tuple(ctx.endpoints.seen)) > before:
            yield f"{what}, then the end: reached an endpoint as a whole request"


def hostile_goes_on(ctx: ScriptContext) -> Iterator[str]:
    """After bad requests and connections that say nothing, good clients are served as ever."""
    silent = [ClientConnection(ctx.at["web"], timeout=_SECONDS) for _ in range(50)]
    try:
        for number, stream in enumerate(silent):
            stream.send(_BAD[number % len(_BAD)])
        for number in range(20):
            answer = fetch(ctx.at["web"], get(f"/good/{number}"), timeout=3)
            if account_field(answer, "target") != f"/good/{number}":
                yield f"beside 50 bad connections: {account_field(answer, 'target')}"
        with ClientConnection(ctx.at["web"]) as stream:
            for number in range(3):
                if account_field(answer := stream.ask(get(f"/kept/{number}")), "target") != f"/kept/{number}":
                    yield f"on a kept connection: {account_field(answer, 'target')}"
    finally:
        for stream in silent:
            stream.sock.close()
