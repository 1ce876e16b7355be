"""PROXY headers, byte for byte."""

from __future__ import annotations

from lbgen.agent.proxy_header import proxy_header


def test_headers() -> None:
    v4, v6 = (("192.0.2.1", 4000), ("192.0.2.2", 80)), (("2001:db8::1", 4000), ("2001:db8::2", 80))
    assert proxy_header("v1", *v4) == b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n"
    assert proxy_header("v1", *v6) == b"PROXY TCP6 2001:db8::1 2001:db8::2 4000 80\r\n"
    begin = b"\r\n\r\n\x00\r\nQUIT\n\x21"
    assert proxy_header("v2", *v4) == begin + b"\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x0f\xa0\x00\x50"
    assert proxy_header("v2", *v6)[:16] == begin + b"\x21\x00\x24"
    assert proxy_header("v2", *v6)[-4:] == b"\x0f\xa0\x00\x50"
