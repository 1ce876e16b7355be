"""Bodies: buffering, mirrors, and who stops reading."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import filler, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, control, get, require, wait_until
from lbgen.conformance.scripts.topology_timeouts import deaf_client, slow_reader, stuck_upload
from lbgen.plan.request import Request
from lbgen.runtime.standins.server import ReceivedRequest

if TYPE_CHECKING:
    from lbgen.conformance.difference import Difference

_FRAMED = ("length", "chunks")
_HOP = frozenset({"connection", "content-length", "transfer-encoding"})
_SIZE = 24 << 20  # bytes, more than the buffers of this host's kernel hold


def request_held(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint hears nothing of a request until its whole body is there, with a length and in chunks."""
    return _in_halves(ctx, flows=False)


def request_flows(ctx: ScriptContext) -> Iterator[str]:
    """The first bytes of a body reach the endpoint before its last are sent."""
    return _in_halves(ctx, flows=True)


def _in_halves(ctx: ScriptContext, *, flows: bool) -> Iterator[str]:
    count = ctx.endpoints.body_bytes if flows else ctx.endpoints.heads
    for path in ctx.params["paths"]:
        for head, parts in _uploads(path, 400_000, ctx.params.get("framed", _FRAMED)):
            before = count["p-0"]
            with ctx.connect(timeout=10) as stream:
                stream.send(head + parts[0])
                came = wait_until(lambda before=before: count["p-0"] > before, 3 if flows else 0.5)  # type: ignore[misc]
                if came != flows:
                    yield f"{path}: half of a body {'reached' if came else 'did not reach'} the endpoint"
                stream.send(parts[1])
                answer = stream.read_answer()
            if (length := account_field(answer, "body_length")) != "400000":
                yield f"{path}: {length} bytes of body"


def answered_early(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint's response to a part of a body reaches the client, who has not sent the rest."""
    name, how = control(mode="early", status=413, body="enough\n")
    for path in ctx.params["paths"]:
        for head, parts in _uploads(path, 1000):
            begin, _, fields = head.partition(b"\r\n")
            with ctx.connect(timeout=3) as stream:
                stream.send(begin + f"\r\n{name}: {how}\r\n".encode() + fields + parts[0])
                answer = stream.read_answer()
            if (answer.status, answer.body) != (413, b"enough\n"):
                yield f"{path}: got {answer.status} {answer.problem} in 3 s, expected the endpoint's 413"


def answers_to_uploads(ctx: ScriptContext) -> None:
    """The response to an upload is whole, also when the endpoint answers the moment it has the body and pauses then."""
    fields = [("Host", "h"), ("Content-Length", "3"), control(mode="drip", count=2, wait_ms=20)]
    fields += [("Expect", "100-continue")] if ctx.params.get("expects") else []

    def upload(number: int) -> str:
        head = serialize(Request("POST", f"{ctx.params['path']}/{number}", tuple(fields)))
        with ctx.connect(timeout=8) as stream:
            for piece in [head + b"abc"] if ctx.params.get("expects") else [head, b"abc"]:
                stream.send(piece)
            answer = stream.read_answer()
        whole = answer.status == 200 and not answer.problem and account_of(answer) is not None
        return "" if whole else f"{answer.status} {answer.problem} {len(answer.body)} bytes"

    count = ctx.params["count"]
    with ThreadPoolExecutor(20) as pool:
        wrong = [found for found in pool.map(upload, range(count)) if found]
    require(not wrong, f"{len(wrong)} of {count} responses were not whole, the first: {wrong[:1]}")


def _uploads(path: str, size: int, framed: Sequence[str] = _FRAMED) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    """A head and the two halves of a body, framed by its length, then in chunks."""
    half = size // 2
    parts = filler(size)[:half], filler(size)[half:]
    if "length" in framed:
        yield serialize(Request("POST", path, (("Host", "h"), ("Content-Length", str(size))))), parts
    if "chunks" in framed:
        head = f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        first, second = (b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        yield head, (first, second + b"0\r\n\r\n")


def response_flows(ctx: ScriptContext) -> Iterator[str]:
    """Bytes of an answer come to the client as the endpoint sends them."""
    for path in ctx.params["paths"]:
        with ctx.connect(timeout=8) as stream:
            stream.send(serialize(get(path, control(mode="drip", count=4, wait_ms=500))))
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
            sock.sendall(serialize(get(path, control(mode="fixed", body="0123456789", size=250_000))))
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
        headers = (("Host", "h"), ("X-B", "0"), ("X-Two", "1"), ("X-Two", "2"), control(tag=tag), *more)
        answer = ctx.ask(Request(method, ctx.params["path"], headers, body=body))
        if account_field(answer, "pool") != "p":
            yield f"{method}: {account_field(answer, 'pool')}"
        seen = _copies(ctx, tag, len(pools))
        if sorted(one.name for one in seen) != pools:
            yield f"{method} with {len(body)} bytes went to {sorted(one.name for one in seen)}, expected {pools}"
            continue
        first = next(one for one in seen if one.name == "p-0")
        for copy in seen:
            if (copy.method, copy.target, copy.body_sha256) != (first.method, first.target, first.body_sha256):
                yield f"{method}: {copy.name} got {copy.method} {copy.target}, p-0 {first.method} {first.target}"
            if difference := _plain(copy) ^ _plain(first):
                yield f"{method}: headers of {copy.name} and p-0 differ: {sorted(difference)}"


def _plain(seen: ReceivedRequest) -> set[tuple[str, str]]:
    return {(n.lower(), v) for n, v in seen.headers if n.lower() not in _HOP}


def mirror_percent(ctx: ScriptContext) -> Iterator[str]:
    """About the asked share of requests is copied, and none where no mirror is asked for."""
    for path, (low, high) in ctx.params["shares"].items():
        tag = uuid4().hex
        for _ in range(200):
            ctx.ask(get(path, control(tag=tag)))
        time.sleep(0.5)
        copies = sum(one.name == "shadow-0" for one in ctx.endpoints.tagged(tag))
        if not low <= copies <= high:
            yield f"{path}: {copies} of 200 requests were copied, expected {low} to {high}"


def tunnels_are_not_mirrored(ctx: ScriptContext) -> Iterator[str]:
    """No copy of a WebSocket's handshake goes to a mirror."""
    tag = uuid4().hex
    answer = ctx.ask(get(ctx.params["path"], *HANDSHAKE, control(tag=tag, mode="fixed")))
    if answer.status != 200:
        yield f"a handshake that is declined: {answer.status}, expected 200"
    if (seen := [one.name for one in _copies(ctx, tag, 2, 0.5)]) != ["p-0"]:
        yield f"the handshake went to {seen}, expected p-0 alone"


def client_stops_reading(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that reads nothing for the idle time (`idle_ms`) is given up; one that goes on before is not."""
    idle = ctx.params["idle_ms"]
    return deaf_client(_asking_for_much(ctx, "/short", within_ms=(0, idle + 1300), early_ms=idle * 0.36))


def client_pauses(ctx: ScriptContext) -> Iterator[Difference | str]:
    """A client that reads nothing for less than the idle time (5 s) gets all, whatever the time of its own body."""
    return slow_reader(_asking_for_much(ctx, "/", within_ms=(0, 5000)), 1500, whole=True)


def closing_client_pauses(ctx: ScriptContext) -> Iterator[str]:
    """A client after whose request the connection ends gets all too, though it takes nothing for 0.8 s. Of some size
    the last bytes are then in the proxy, those before in the kernel."""
    sizes = [count << 19 for count in range(1, 17)]
    with ExitStack() as stack:
        streams = [stack.enter_context(ctx.connect(timeout=15)) for _ in sizes]
        for size, stream in zip(sizes, streams, strict=True):
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            stream.send(serialize(get("/", control(mode="fixed", body="x", size=size), ("Connection", "close"))))
        time.sleep(0.8)
        for size, stream in zip(sizes, streams, strict=True):
            stream.read_until(b"\r\n\r\n")
            while len(stream.buffer) < size and stream.read_more():
                pass
            if len(stream.buffer) < size:
                yield f"the client took 800 ms off and got {len(stream.buffer)} bytes of {size}"


def endpoint_stops_reading(ctx: ScriptContext) -> Iterator[Difference | str]:
    """An upload that its endpoint reads nothing of is given up after the idle time and that of clients (700 ms)."""
    request = replace(get(ctx.target, control(mode="deaf")), listener=ctx.listener)
    params = {"request": request, "size": _SIZE, "within_ms": (300, 2000), "patience": 8}
    return stuck_upload(replace(ctx, params=params))


def _asking_for_much(ctx: ScriptContext, target: str, **params: object) -> ScriptContext:
    request = replace(get(target, control(mode="fixed", body="x", size=_SIZE)), listener=ctx.listener)
    return replace(ctx, params={"request": request, "size": _SIZE, **params})
