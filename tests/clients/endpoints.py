"""Small real servers behind the engines: HTTP/1.1 by h11, WebSocket by websockets, gRPC by grpcio, DNS by hand.

`python -m tests.clients.endpoints` prints their ports as one line of JSON and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import socket
import struct
import sys
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h11
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed

PAGE = Path(__file__).parent / "programs" / "page.html"
SERVICE = "lbgen.test.Calls"
SENT = ("x-one", "x-two", "x-blob-bin")  # metadata of calls that comes back in the answer
_PIECE = 1 << 16


@cache
def content(size: int) -> bytes:
    """Bytes that compress well and differ at every place."""
    return b"".join(b"%09d\n" % number for number in range(size // 10 + 1))[:size]


class Http:
    """A server of HTTP/1.1 that keeps connections. Paths are /POOL/ACTION/..."""

    def __init__(self) -> None:
        self.open: dict[str, int] = {}  # requests in progress, by their whole path
        self.reports: dict[str, object] = {}  # what pages posted, by the path's last part

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, h11.ProtocolError, asyncio.IncompleteReadError):
            one = _Connection(reader, writer)
            while await self._request(one):
                pass
        writer.close()

    async def _request(self, one: _Connection) -> bool:
        """Answer a request; whether the connection may have another one."""
        request = await one.event()
        if not isinstance(request, h11.Request):
            return False
        path = urlsplit(request.target.decode()).path
        self.open[path] = self.open.get(path, 0) + 1
        try:
            action = path.split("/")[2] if path.count("/") > 1 else ""
            await getattr(self, f"_{action}", self._unknown)(one, request, path)
        finally:
            self.open[path] -= 1
        return await one.next_cycle()

    async def _unknown(self, one: _Connection, request: h11.Request, path: str) -> None:
        await one.body()
        await one.answer(404, b"no such action\n")

    async def _echo(self, one: _Connection, request: h11.Request, path: str, cors: tuple = ()) -> None:
        body = await one.body()
        account = {
            "method": request.method.decode(),
            "target": request.target.decode(),
            "fields": sorted((name.decode(), value.decode("latin-1")) for name, value in request.headers),
            "size": len(body),
            "sha": hashlib.sha256(body).hexdigest(),
        }
        fields = (("content-type", "application/json"), ("x-endpoint", "a; b"), *cors)
        whole = json.dumps(account).encode().ljust(4095) + b"\n"  # of one length, whatever the proxy added
        await one.answer(200, whole, fields, head=request.method == b"HEAD")

    async def _cors(self, one: _Connection, request: h11.Request, path: str) -> None:
        """As an endpoint that allows another origin itself, unless the engine in front does (route `cors`)."""
        fields = dict(request.headers)
        allowed = (("access-control-allow-origin", fields.get(b"origin", b"").decode()), ("vary", "Origin"))
        if path.startswith("/cors/") and b"x-forwarded-for" in fields:
            allowed = ()
        if request.method == b"OPTIONS" and b"access-control-request-method" in fields:
            await one.body()
            preflight = (("access-control-allow-methods", "PUT"), ("access-control-allow-headers", "x-token"))
            await one.answer(204, b"", (*allowed, *preflight))
        else:
            await self._echo(one, request, path, (*allowed, ("access-control-expose-headers", "x-endpoint")))

    async def _bytes(self, one: _Connection, request: h11.Request, path: str) -> None:
        """/bytes/SIZE: whole, a range of it, or compressed."""
        await one.body()
        whole, fields = content(int(path.split("/")[3])), dict(request.headers)
        etag = ("etag", f'"{len(whole)}"')
        asked = fields.get(b"range", b"").decode().removeprefix("bytes=")
        if asked:
            first, last = (int(word) for word in asked.split("-"))
            part = ("content-range", f"bytes {first}-{last}/{len(whole)}")
            await one.answer(206, whole[first : last + 1], (etag, part, ("accept-ranges", "bytes")))
        elif fields.get(b"if-none-match") == etag[1].encode():
            await one.answer(304, b"", (etag,))
        elif b"gzip" in fields.get(b"accept-encoding", b""):
            packed = (("content-encoding", "gzip"), ("vary", "accept-encoding"), etag)
            await one.answer(200, gzip.compress(whole, 1, mtime=0), packed, head=request.method == b"HEAD")
        else:
            await one.answer(200, whole, (etag, ("accept-ranges", "bytes")), head=request.method == b"HEAD")

    async def _redirect(self, one: _Connection, request: h11.Request, path: str) -> None:
        await one.body()
        await one.answer(307, b"", (("location", path.replace("redirect", "echo")),))

    async def _cookies(self, one: _Connection, request: h11.Request, path: str) -> None:
        """Sets two cookies at the first request, says which ones it gets at the next."""
        await one.body()
        got = [value.decode() for name, value in request.headers if name == b"cookie"]
        both = tuple(("set-cookie", f"{name}={value}; Path=/") for name, value in (("a", "1"), ("b", '"x y"')))
        await one.answer(200, "; ".join(got).encode(), () if got else both)

    async def _chunks(self, one: _Connection, request: h11.Request, path: str) -> None:
        """/chunks/NUMBER: pieces without a length, and a trailer."""
        await one.body()
        await one.begin(200, (("trailer", "x-sum"), ("transfer-encoding", "chunked")))
        for number in range(int(path.split("/")[3])):
            await one.send(h11.Data(data=b"piece %d\n" % number))
        await one.send(h11.EndOfMessage(headers=[("x-sum", "42")]))

    async def _events(self, one: _Connection, request: h11.Request, path: str) -> None:
        """/events/NUMBER: server-sent events, 20 ms apart; each must be on its way before the next is made."""
        await one.body()
        headers = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
        await one.begin(200, (*headers, ("transfer-encoding", "chunked")))
        for number in range(int(path.split("/")[3])):
            await one.send(h11.Data(data=b"id: %d\nevent: tick\ndata: number %d\n\n" % (number, number)))
            await asyncio.sleep(0.02)
        await one.send(h11.EndOfMessage())

    async def _forever(self, one: _Connection, request: h11.Request, path: str) -> None:
        """Sends a line every 50 ms until the client has left: text, or at /sse/forever events."""
        await one.body()
        kind = "event-stream" if path.startswith("/sse") else "plain"
        await one.begin(200, (("content-type", f"text/{kind}"), ("transfer-encoding", "chunked")))
        while not one.reader.at_eof():
            await one.send(h11.Data(data=b"data: still here\n\n"))
            with suppress(TimeoutError):
                await asyncio.wait_for(one.reader.read(1), 0.05)

    async def _refuse(self, one: _Connection, request: h11.Request, path: str) -> None:
        """401 at once, while the body is on its way; the connection is kept. /refuse/close: it ends with the body."""
        close = (("connection", "close"),) if path.endswith("/close") else ()
        await one.answer(401, b"not you\n", (("www-authenticate", "Bearer"), *close))
        await one.body()

    async def _reset(self, one: _Connection, request: h11.Request, path: str) -> None:
        """Some of the body, then a reset; /reset/head: a reset instead of an answer; /reset/upload: one within the
        request; /reset/events: one within a stream of events."""
        kind = path.split("/")[-1]
        await (one.event() if kind == "upload" else one.body())
        if kind == "events":
            await one.begin(200, (("content-type", "text/event-stream"), ("transfer-encoding", "chunked")))
        elif kind == "reset":
            await one.begin(200, (("content-length", "100000"),))
        if kind in ("events", "reset"):
            await one.send(h11.Data(data=b"data: x\n\n" * 100))
            await asyncio.sleep(0.1)
        reset(one.writer)
        raise ConnectionResetError

    async def _page(self, one: _Connection, request: h11.Request, path: str) -> None:
        await one.body()
        await one.answer(200, PAGE.read_bytes(), (("content-type", "text/html; charset=utf-8"),))

    async def _report(self, one: _Connection, request: h11.Request, path: str) -> None:
        """POST keeps what a page found, GET hands it out: null until then."""
        body = await one.body()
        if request.method == b"POST":
            self.reports[path] = json.loads(body)
        await one.answer(200, json.dumps(self.reports.get(path)).encode())

    async def _stats(self, one: _Connection, request: h11.Request, path: str) -> None:
        await one.body()
        await one.answer(200, json.dumps(self.open | CALLS).encode())


class _Connection:
    """What h11 says of a connection, and what it sends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.http = reader, writer, h11.Connection(h11.SERVER)

    async def event(self) -> object:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.http.receive_data(await self.reader.read(_PIECE))
        return event

    async def body(self) -> bytes:
        parts = []
        while isinstance(event := await self.event(), h11.Data):
            parts.append(event.data)
        if isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError
        return b"".join(parts)

    async def send(self, event: h11.Event) -> None:
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()

    async def begin(self, status: int, fields: tuple = ()) -> None:
        headers = [("server", "endpoint"), *fields]
        await self.send(h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode()))

    async def answer(self, status: int, body: bytes, fields: tuple = (), *, head: bool = False) -> None:
        length = () if status in (204, 304) else (("content-length", str(len(body))),)
        await self.begin(status, (*fields, *length))
        if not head and body:
            await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())

    async def next_cycle(self) -> bool:
        if self.http.our_state is not h11.DONE or self.http.their_state not in (h11.DONE, h11.MIGHT_SWITCH_PROTOCOL):
            return False
        self.http.start_next_cycle()
        return True


def reset(connection: Any) -> None:
    """End a connection by RST; it is a StreamWriter, or one of websockets."""
    raw = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()


async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Resets each connection once something has arrived."""
    with suppress(OSError):
        await reader.read(1)
    reset(writer)


CALLS = {"cancelled": 0, "sockets": 0}  # gRPC calls whose clients gave up; WebSockets that are open


async def websocket(connection) -> None:
    CALLS["sockets"] += 1
    try:
        if connection.request.path == "/ws/close":
            await connection.close(4321, "as asked")
        with suppress(ConnectionClosed):
            async for message in connection:
                await connection.send(message)
                if connection.request.path == "/ws/reset":
                    reset(connection)
    finally:
        CALLS["sockets"] -= 1


def refuse(connection, request):
    """/ws/refuse is an ordinary answer."""
    return connection.respond(403, "not you\n") if request.path == "/ws/refuse" else None


def _grpc_server():
    """The service of calls: messages are bytes, so that no schema is needed. None without grpcio."""
    try:
        import grpc
    except ImportError:
        return None, 0

    async def unary(request, context):
        own = sorted((k, str(value)) for k, value in context.invocation_metadata() if k in SENT)
        await context.send_initial_metadata((("x-initial", "here"),))
        context.set_trailing_metadata((("x-trailing", "there"), ("x-blob-bin", b"\x00\xff")))
        return json.dumps([own, len(request), hashlib.sha256(request).hexdigest()]).encode()

    async def metadata(request, context):
        return json.dumps(sorted((key, str(value)) for key, value in context.invocation_metadata())).encode()

    async def large(request, context):
        return content(int(request))

    async def server_stream(request, context):
        for number in range(int(request)):
            yield b"%d" % number

    async def client_stream(requests, context):
        return b"%d" % sum([len(each) async for each in requests])

    async def bidi(requests, context):
        async for each in requests:
            yield each.upper()

    async def wait(request, context):
        yield b"waiting"
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            CALLS["cancelled"] += 1
            raise

    async def missing(request, context):
        context.set_trailing_metadata((("x-reason", "gone"),))
        await context.abort(grpc.StatusCode.NOT_FOUND, f"no {request.decode()} \N{SNOWMAN}")

    async def early(requests, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not you")

    async def broken_stream(request, context):
        yield b"first"
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")

    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Metadata": grpc.unary_unary_rpc_method_handler(metadata),
        "Large": grpc.unary_unary_rpc_method_handler(large),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "Bidi": grpc.stream_stream_rpc_method_handler(bidi),
        "Wait": grpc.unary_stream_rpc_method_handler(wait),
        "Missing": grpc.unary_unary_rpc_method_handler(missing),
        "Early": grpc.stream_unary_rpc_method_handler(early),
        "BrokenStream": grpc.unary_stream_rpc_method_handler(broken_stream),
    }
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 1 << 25), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server, server.add_insecure_port("127.0.0.1:0")


class Dns(asyncio.DatagramProtocol):
    """Answers A with 192.0.2.53 and TXT with long lines; a query's own bits and question come back."""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address) -> None:
        self.transport.sendto(dns_answer(data), address)


def dns_answer(query: bytes) -> bytes:
    end = query.index(b"\0", 12) + 5
    kind = query[end - 4 : end - 2]
    text = b"".join(bytes((200,)) + b"%c" % letter * 200 for letter in b"abcdef")
    record = text if kind == b"\x00\x10" else bytes((192, 0, 2, 53))
    head = query[:2] + b"\x85\x00" + b"\0\x01\0\x01\0\0\0\0"
    return head + query[12:end] + b"\xc0\x0c" + kind + b"\0\x01\0\0\0\x3c" + len(record).to_bytes(2, "big") + record


async def dns_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, OSError):
        while True:
            query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            answer = dns_answer(query)
            writer.write(len(answer).to_bytes(2, "big") + answer)
    writer.close()


async def main(hosts: list[str]) -> None:
    """Serve at 127.0.0.1, DNS at all `hosts`; port `dead` is bound, and nobody listens there."""
    loop, http = asyncio.get_running_loop(), Http()
    servers = {name: await asyncio.start_server(http.connection, "127.0.0.1", 0) for name in ("http", "early")}
    options = {"max_size": None, "ping_interval": None, "process_request": refuse}
    servers["ws"] = await serve_websocket(websocket, "127.0.0.1", 0, **options)
    servers["broken"] = await asyncio.start_server(broken, "127.0.0.1", 0)
    servers["dns"] = await asyncio.start_server(dns_connection, hosts[0], 0)
    ports = {name: next(iter(server.sockets)).getsockname()[1] for name, server in servers.items()}
    for host in hosts[1:]:
        servers[host] = await asyncio.start_server(dns_connection, host, ports["dns"])
    for host in hosts:
        await loop.create_datagram_endpoint(Dns, (host, ports["dns"]))
    grpc, ports["grpc"] = _grpc_server()
    if grpc is not None:
        await grpc.start()
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        ports["dead"] = dead.getsockname()[1]
        sys.stdout.write(json.dumps(ports) + "\n")
        sys.stdout.flush()
        await loop.run_in_executor(None, sys.stdin.read)
    if grpc is not None:
        await grpc.stop(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["127.0.0.1"]))
