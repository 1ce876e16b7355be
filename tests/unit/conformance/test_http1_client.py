"""What a case sends."""

from lbgen.conformance.http1_client import filler, serialize
from lbgen.plan.request import Request


def test_a_chunked_body_is_cut_into_chunks() -> None:
    body = filler(20_000)
    assert len(body) == 20_000
    headers = (("Host", "h"), ("Transfer-Encoding", "chunked"))
    head, _, rest = serialize(Request("POST", "/", headers, body=body)).partition(b"\r\n\r\n")
    assert b"content-length" not in head.lower()
    assert rest == b"4000\r\n" + body[:16384] + b"\r\ne20\r\n" + body[16384:] + b"\r\n0\r\n\r\n"
