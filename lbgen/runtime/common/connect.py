"""What a client does at a listener before HTTP begins: a PROXY header and TLS, as far as a probe of ours needs it."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.agent.proxy_header import own_proxy_header

if TYPE_CHECKING:
    from lbgen.plan.model import HostPattern, Listener


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """`proxied`: a PROXY header comes first. `tls`: then a handshake, for the server name `sni` (None = without)."""

    proxied: bool = False
    tls: bool = False
    sni: str | None = None

    def open(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connection on which HTTP/1.1 may be spoken. The certificate is not verified: this is no client's request.

        Raises OSError (also ssl.SSLError).
        """
        sock = socket.create_connection((host, port), timeout)
        try:
            if self.proxied:
                sock.sendall(own_proxy_header("v1", sock))
            if not self.tls:
                return sock
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["http/1.1"])
            return context.wrap_socket(sock, server_hostname=self.sni)
        except OSError:
            sock.close()
            raise


def connect_options(listener: Listener, sni: HostPattern | None = None) -> ConnectOptions | None:
    """How a probe enters `listener` (L4: by a rule for `sni`); None when it would need a client's certificate."""
    tls = listener.tls
    if tls is None:
        return ConnectOptions(listener.proxy_protocol)
    if tls.client_required:
        return None
    names = [name for pair in tls.certificates for name in pair.names]
    name = sni or next(iter(names), None)
    return ConnectOptions(listener.proxy_protocol, True, None if name is None else _host(name))


def _host(pattern: HostPattern) -> str:
    return f"lbgen-probe.{pattern.name}" if pattern.wildcard else pattern.name
