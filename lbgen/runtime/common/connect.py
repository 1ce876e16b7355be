"""Opens a connection to a listener as a probe needs it: PROXY header and TLS before HTTP."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.agent.proxy_header import own_proxy_header

if TYPE_CHECKING:
    from lbgen.plan.model import HostPattern, Listener


class ConnectOptions(Struct, frozen=True):
    """`proxied`: a PROXY header comes first. `tls`: then a handshake, for the server name `sni` (None = without)."""

    proxied: bool = False
    tls: bool = False
    sni: str | None = None

    def open(self, host: str, port: int, timeout: float, alpn: str = "http/1.1") -> socket.socket:
        """Open a connection for the protocol `alpn`. The certificate is not verified, since only a probe connects.

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
            context.set_alpn_protocols([alpn])
            return context.wrap_socket(sock, server_hostname=self.sni)
        except OSError:
            sock.close()
            raise


def connect_options(listener: Listener, sni: HostPattern | None = None) -> ConnectOptions | None:
    """Return how a probe connects to `listener` (L4: by a rule for `sni`); None when it would need a client
    certificate."""
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
