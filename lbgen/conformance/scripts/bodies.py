"""Buffering of bodies, and mirrors."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import uuid4

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import ClientConnection, fetch, filler, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get, wait_until
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    from lbgen.runtime.standins.server import ReceivedRequest

_FRAMED = ("length", "chunks")
_HOP = frozenset({"connection", "content-length", "transfer-encoding"})


def request_held(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint hears nothing of a request until its whole body is there, with a length and in chunks."""
    heads = ctx.endpoints.heads
    for path in ctx.params["paths"]:
        for head, parts in _uploads(path, 400_000):
            before = heads["p-0"]
            with ClientConnection(ctx.at["web"], timeout=10) as stream:
                stream.send(head + parts[0])
                time.sleep(0.5)
                if heads["p-0"] != before:
                    yield f"{path}: an endpoint was asked before the body was there"
                stream.send(parts[1])
                answer = stream.read_answer()
            account = account_of(answer)
            if account is None or account["body_length"] != 400_000:
                yield f"{path}: {account_field(answer, 'body_length')} bytes of body"


def request_flows(ctx: ScriptContext) -> Iterator[str]:
    """The first bytes of a body reach the endpoint before its last are sent."""
    counted = ctx.endpoints.body_bytes
    for path in ctx.params["paths"]:
        for head, parts in _uploads(path, 400_000, ctx.params.get("framed", _FRAMED)):
            before = counted["p-0"]
            with ClientConnection(ctx.at["web"], timeout=10) as stream:
                stream.send(head + parts[0])
                if not wait_until(lambda before=before: counted["p-0"] > before, 3):  # type: ignore[misc]
                    yield f"{path}: no byte of the body reached the endpoint within 3 s of half of it"
                stream.send(parts[1])
                answer = stream.read_answer()
            account = account_of(answer)
            if account is None or account["body_length"] != 400_000:
                yield f"{path}: {account_field(answer, 'body_length')} bytes of body"


def answered_early(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint's response to a part of a body reaches the client, who has not sent the rest."""
    control = json.dumps({"mode": "early", "status": 413, "body": "enough\n"})
    for path in ctx.params["paths"]:
        for head, parts in _uploads(path, 1000):
            begin, _, fields = head.partition(b"\r\n")
            asked = begin + f"\r\n{CONTROL}: {control}\r\n".encode() + fields
            with ClientConnection(ctx.at["web"], timeout=3) as stream:
                stream.send(asked + parts[0])
                answer = stream.read_answer()
            if (answer.status, answer.body) != (413, b"enough\n"):
                yield f"{path}: got {answer.status} {answer.problem} in 3 s, expected the endpoint's 413"


def answers_to_uploads(ctx: ScriptContext) -> Iterator[str]:
    """The response to an upload is whole, also when the endpoint answers the moment it has the body and pauses then."""
    expect = "Expect: 100-continue\r\n" if ctx.params.get("expects") else ""
    head = f'Content-Length: 3\r\n{expect}{CONTROL}: {{"mode": "drip", "count": 2, "wait_ms": 20}}\r\n\r\n'

    def upload(number: int) -> str:
        with ClientConnection(ctx.at["web"], timeout=8) as stream:
            upload = f"POST {ctx.params['path']}/{number} HTTP/1.1\r\nHost: h\r\n{head}".encode()
            for piece in [upload + b"abc"] if expect else [upload, b"abc"]:
                stream.send(piece)
            answer = stream.read_answer()
        whole = answer.status == 200 and not answer.problem and account_of(answer) is not None
        return "" if whole else f"{answer.status} {answer.problem} {len(answer.body)} bytes"

    count = ctx.params["count"]
    with ThreadPoolExecutor(20) as pool:
        wrong = [found for found in pool.map(upload, range(count)) if found]
    if wrong:
        yield f"{len(wrong)} of {count} responses were not whole, the first: {wrong[0]}"


def _uploads(path: str, size: int, framed: Sequence[str] = _FRAMED) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    """A head and the two halves of a body, framed by its length, then in chunks."""
    body = filler(size)
    half = size // 2
    if "length" in framed:
        yield (
            serialize(Request("POST", path, (("Host", "h"), ("Content-Length", str(size))))),
            (body[:half], body[half:]),
        )
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:])]
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    if "chunks" in framed:
        yield head, (chunks[0], chunks[1] + b"0\r\n\r\n")


def response_flows(ctx: ScriptContext) -> Iterator[str]:
    """Bytes of an answer come to the client as the endpoint sends them."""
    for path in ctx.params["paths"]:
        with ClientConnection(ctx.at["web"], timeout=8) as stream:
            stream.send(serialize(get(path, (CONTROL, '{"mode": "drip", "count": 4, "wait_ms": 500}'))))
            if stream.read_until(b"\r\n\r\n") is None:
                yield f"{path}: no head"
                continue
            while not stream.buffer and stream.read_more():
                pass
            first = time.monotonic() - stream.begun
            while b"\r\n0\r\n\r\n" not in stream.buffer and stream.read_more():
                pass
            last = time.monotonic() - stream.begun
        if first > last - 0.8:
            yield f"{path}: first bytes of the body after {first:.2f} s, the last after {last:.2f} s"


def response_kept(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint is done with an answer of 250 kB although the client reads nothing."""
    for path in ctx.params["paths"]:
        before = ctx.endpoints.answered["p-0"]
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(ctx.at["web"])
            sock.sendall(serialize(get(path, (CONTROL, '{"mode": "fixed", "body": "0123456789", "size": 250000}'))))
            if not wait_until(lambda before=before: ctx.endpoints.answered["p-0"] > before, 3):  # type: ignore[misc]
                yield f"{path}: the endpoint still sends after 3 s"


def _copies(ctx: ScriptContext, tag: str, count: int, seconds: float = 3.0) -> list[ReceivedRequest]:
    wait_until(lambda: len(ctx.endpoints.tagged(tag)) >= count, seconds)
    time.sleep(0.1)  # one too many would come now
    return ctx.endpoints.tagged(tag)


def mirror_copies(ctx: ScriptContext) -> Iterator[str]:
    """A copy has the method, target, headers and body that the endpoint gets."""
    pools = sorted(f"{name}-0" for name in ["p", *ctx.params["pools"]])
    for method, body in (("GET", b""), ("POST", b"hello"), ("PUT", filler(60_000)), ("DELETE", b"")):
        tag = uuid4().hex
        more = [tuple(line.split(": ", 1)) for line in ctx.params.get("headers", ())]
        headers = (("Host", "h"), ("X-B", "0"), ("X-Two", "1"), ("X-Two", "2"), (CONTROL, f'{{"tag": "{tag}"}}'), *more)
        answer = fetch(ctx.at["web"], Request(method, ctx.params["path"], headers, body=body))
        if account_field(answer, "pool") != "p":
            yield f"{method}: {account_field(answer, 'pool')}"
        seen = _copies(ctx, tag, len(pools))
        if sorted(one.name for one in seen) != pools:
            yield f"{method} with {len(body)} bytes went to {sorted(one.name for one in seen)}, expected {pools}"
            continue
        first = next(one for one in seen if one.name == "p-0")
        if kept := {name for name, _ in _plain(first)} & {name.lower() for name in ctx.params.get("without", ())}:
            yield f"{method}: the endpoint got {sorted(kept)}"
        for copy in seen:
            if (copy.method, copy.target, copy.body_sha256) != (first.method, first.target, first.body_sha256):
                yield f"{method}: {copy.name} got {copy.method} {copy.target}, p-0 {first.method} {first.target}"
            if difference := set(_plain(copy)) ^ set(_plain(first)):
                yield f"{method}: headers of {copy.name} and p-0 differ: {sorted(difference)}"


def _plain(seen: ReceivedRequest) -> list[tuple[str, str]]:
    return [(n.lower(), v) for n, v in seen.headers if n.lower() not in _HOP]


def mirror_percent(ctx: ScriptContext) -> Iterator[str]:
    """About the asked share of requests is copied, and none where no mirror is asked for."""
    wanted = {"/part": ctx.params["share"], "/none": (0, 0), "/zero": (0, 0), "/hardly": (0, 5)}
    for path, (low, high) in wanted.items():
        tag = uuid4().hex
        for _ in range(200):
            fetch(ctx.at["web"], get(path, (CONTROL, f'{{"tag": "{tag}"}}')))
        time.sleep(0.5)
        copies = sum(one.name == "shadow-0" for one in ctx.endpoints.tagged(tag))
        if not low <= copies <= high:
            yield f"{path}: {copies} of 200 requests were copied, expected {low} to {high}"


def mirror_keeps_connection(ctx: ScriptContext) -> Iterator[str]:
    """A slow mirror does not hold up the next request of the connection."""
    with ClientConnection(ctx.at["web"], timeout=12) as stream:
        for number in range(3):
            begun = time.monotonic()
            answer = stream.ask(get(f"/slow/{number}"))
            took = time.monotonic() - begun
            if account_field(answer, "target") != f"/slow/{number}" or took > 2.0:
                yield f"request {number} on one connection: {account_field(answer, 'target')} after {took:.1f} s"


def tunnels_are_not_mirrored(ctx: ScriptContext) -> Iterator[str]:
    """No copy of a WebSocket's handshake goes to a mirror."""
    tag = uuid4().hex
    answer = fetch(
        ctx.at["web"], get(ctx.params["path"], *HANDSHAKE, (CONTROL, f'{{"tag": "{tag}", "mode": "fixed"}}'))
    )
    if answer.status != 200:
        yield f"a handshake that is declined: {answer.status}, expected 200"
    seen = [one.name for one in _copies(ctx, tag, 2, 0.5)]
    if seen != ["p-0"]:
        yield f"the handshake went to {seen}, expected p-0 alone"
