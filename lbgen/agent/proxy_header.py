"""The header of the PROXY protocol, as its sender writes it.

Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"  # of version 2


def proxy_header(version: str, source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """The header of `version` (v1 or v2) for a TCP connection between two IP addresses and ports."""
    v6 = ":" in source[0]
    if version == "v1":
        return f"PROXY TCP{6 if v6 else 4} {source[0]} {destination[0]} {source[1]} {destination[1]}\r\n".encode()
    addresses = ip_address(source[0]).packed + ip_address(destination[0]).packed
    body = addresses + struct.pack("!HH", source[1], destination[1])
    return SIGNATURE + struct.pack("!BBH", 0x21, 0x21 if v6 else 0x11, len(body)) + body


def own_proxy_header(version: str, connected: socket.socket) -> bytes:
    """The header that names the two ends of the connection itself: a check or a probe has no client."""
    return proxy_header(version, connected.getsockname()[:2], connected.getpeername()[:2])
