"""Sizes of requests and responses, and limits of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from lbgen.conformance.http1_client import ClientConnection, fetch, filler
from lbgen.conformance.http2_client import Http2Client, header_list
from lbgen.conformance.scripts.context import ScriptContext, behaving, get
from lbgen.plan.request import Request
from lbgen.runtime.standins.stand_in import Behaviour


def over_limit_never_complete(ctx: ScriptContext) -> Iterator[str]:
    """No endpoint ever sees the whole of a request over `max_body`; with a length it is not even asked."""
    for path, size in (("/small", 1_500), ("/large", 204_800)):
        for framing in ((), (("Transfer-Encoding", "chunked"),)):
            whole, heads = sum(ctx.endpoints.requests.values()), sum(ctx.endpoints.heads.values())
            answer = fetch(ctx.at["web"], Request("POST", path, (("Host", "h"), *framing), body=filler(size)))
            time.sleep(0.1)
            how = "chunked" if framing else "with a length"
            if answer.status != 413:
                yield f"{path}, {size} bytes {how}: {answer.status} {answer.problem}, expected 413"
            if sum(ctx.endpoints.requests.values()) != whole:
                yield f"{path}, {size} bytes {how}: the endpoint got the whole request"
            if not framing and sum(ctx.endpoints.heads.values()) != heads:
                yield f"{path}, {size} bytes {how}: the endpoint was asked"


def response_of_many_lines(ctx: ScriptContext) -> Iterator[str]:
    """A response of 150 header lines, about 3 KiB, reaches the client whole."""
    lines = tuple((f"x-line-{number}", str(number)) for number in range(150))
    with behaving(ctx, ctx.params["name"], Behaviour("fixed", headers=lines)):
        answer = fetch(ctx.at["web"], get("/"))
    if answer.status != 200:
        yield f"{answer.status} {answer.problem}, expected 200"
    elif lost := [name for name, value in lines if answer.header(name) != value]:
        yield f"{len(lost)} lines are missing or differ, {lost[0]} among them"


_ANY2 = Request(version="2")


def heads_over_http2(ctx: ScriptContext) -> Iterator[str]:
    """What counts is the size of the headers themselves (limit: 4 KiB), however few bytes HPACK makes of them."""
    name = ctx.params["listener"]
    plain = ((("x-fill", "a" * 3000),), (("x-fill", "a" * 5300),))
    known = (("x-one", "a" * 1800),) * 3  # after the first, one byte each
    for how, headers, huffman, status in (
        ("below, huffman-coded", plain[0], True, 200),
        ("below, not coded", plain[0], False, 200),
        ("over, huffman-coded", plain[1], True, 431),
        ("over, not coded", plain[1], False, 431),
        ("over, repeated", known, False, 431),
    ):
        with ClientConnection(ctx.at[name], transport=ctx.transport(name, _ANY2)) as stream:
            client = Http2Client(stream)
            encoder = client.connection.encoder
            encoder.encode = partial(encoder.encode, huffman=huffman)  # type: ignore[method-assign]
            request = Request("GET", "/free", (("Host", "h"), *headers))
            answer = client.read_answer(client.send_head(header_list(request, stream.secure)))
        if answer.status != status:
            yield f"{how}: {answer.status} {answer.problem}, expected {status}"
