"""TLS connections that live longer than one request."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, account_field, get
from lbgen.runtime.common.certificates import temporary_certificates


def tls_keeps_connections(ctx: ScriptContext) -> Iterator[str]:
    """Requests on one TLS connection are routed and edited each by itself."""
    with ClientConnection(ctx.at["secure"], transport=ctx.transport("secure")) as stream:
        for number in range(5):
            answer = stream.ask(get(f"/{number}"))
            account = account_of(answer)
            if account is None or account["target"] != f"/{number}":
                yield f"request {number} on one connection: {account_field(answer, 'target')}"
                return


def tls_resumes(ctx: ScriptContext) -> Iterator[str]:
    """A resumed session is served like a new one where the client shows its certificate, and only there."""
    name = ctx.params["listener"]
    shown = ctx.params.get("certificate", "")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        tls = _tls_context(shown, version)
        status, session = _exchange(ctx, name, tls, None)
        if status != "200":
            yield f"{version.name}: first connection: {status}"
            continue
        status, _ = _exchange(ctx, name, tls, session)
        if status != "200":
            yield f"{version.name}: connection that offers a session: {status}"


def _tls_context(certificate: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    folder = temporary_certificates()
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    tls.minimum_version = tls.maximum_version = version
    if certificate:
        tls.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return tls


def _exchange(
    ctx: ScriptContext, name: str, tls: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[str, ssl.SSLSession | None]:
    """The status of an answer, or what came instead, and the session to go on with."""
    try:
        with (
            socket.create_connection(ctx.at[name], timeout=5) as plain,
            tls.wrap_socket(plain, server_hostname="shop.example", session=session) as sock,
        ):
            sock.sendall(b"GET /ok HTTP/1.1\r\nHost: shop.example\r\n\r\n")
            return sock.recv(65536)[9:12].decode("latin-1"), sock.session
    except OSError as error:
        return str(error), None
