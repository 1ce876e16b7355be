"""Streams of gRPC, and PROXY headers of clients that share a proxy's connections."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.conformance import http1_client
from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

_GRPC = '{"mode": "stream", "headers": [["content-type", "application/grpc"]], "trailers": [["grpc-status", "0"]]}'


def grpc_stream(ctx: ScriptContext) -> Iterator[str]:
    """Messages of both sides pass one by one, long before the stream ends, and the trailers come at its end."""
    name = ctx.params["listener"]
    with ClientConnection(ctx.at[name], transport=ctx.transport(name, Request(version="2"))) as stream:
        client = Http2Client(stream)
        number = client.send_head(
            [
                (b":method", b"POST"),
                (b":scheme", b"https" if stream.secure else b"http"),
                (b":path", b"/grpc/pkg.Service/Chat"),
                (b":authority", b"shop.example"),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
                (CONTROL.encode(), _GRPC.encode()),
            ],
            method="POST",
            end=False,
        )
        expected = b""
        for word in (b"one", b"two", b"three"):
            message = bytes(4) + bytes([len(word)]) + word
            expected += message
            client.send_body(number, message, end=False)
            while client.halves[number].body != expected:
                if not client.receive(2.0):
                    yield f"after {word!r}: {bytes(client.halves[number].body)!r} came back {client.gone}"
                    return
        client.connection.end_stream(number)
        client.flush()
        answer = client.read_answer(number)
    if answer.trailers != (("grpc-status", "0"),):
        yield f"trailers {answer.trailers}, {answer.problem}"


def proxy_header_per_client(ctx: ScriptContext) -> Iterator[str]:
    """A connection to an endpoint is used for no other client than its PROXY header names."""
    for path, version in (("/v1", 1), ("/v2", 2)):
        for number in range(6):
            client = f"127.0.0.{10 + number % 3}"
            request = Request("GET", path, (("Host", "h"),), client=client)
            answer = http1_client.fetch(ctx.at["plain"], request)
            account = account_of(answer)
            if account is None or account["proxy"] is None:
                yield f"{path}: {account_field(answer, 'proxy')}"
            elif (account["proxy"]["version"], account["proxy"]["source"]) != (version, client):
                yield f"{path} from {client}: the endpoint was told {account['proxy']}"
