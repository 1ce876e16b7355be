"""TLS connections that live longer than one request."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import ClientConnection, serialize
from lbgen.conformance.judge import account_of
from lbgen.conformance.scripts.stage import get, told_of
from lbgen.runtime.common.certificates import throw_away

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage


def tls_keeps_connections(stage: Stage) -> Iterator[str]:
    """Requests on one TLS connection are routed and edited each by itself."""
    with ClientConnection(stage.at["secure"], transport=stage.transport("secure")) as stream:
        for number in range(5):
            stream.send(serialize(get(f"/{number}")))
            answer = stream.read_answer()
            told = account_of(answer)
            if told is None or told["target"] != f"/{number}":
                yield f"request {number} on one connection: {told_of(answer, 'target')}"
                return


def tls_resumes(stage: Stage) -> Iterator[str]:
    """A resumed session is served like a new one where the client shows its certificate, and only there."""
    name = stage.params["listener"]
    shown = stage.params.get("certificate", "")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = _context(shown, version)
        status, session = _asked(stage, name, context, None)
        if status != "200":
            yield f"{version.name}: first connection: {status}"
            continue
        status, _ = _asked(stage, name, context, session)
        if status != "200":
            yield f"{version.name}: connection that offers a session: {status}"


def _context(certificate: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    folder = throw_away()
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.minimum_version = context.maximum_version = version
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context


def _asked(
    stage: Stage, name: str, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[str, ssl.SSLSession | None]:
    """The status of an answer, or what came instead, and the session to go on with."""
    try:
        with (
            socket.create_connection(stage.at[name], timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="shop.example", session=session) as sock,
        ):
            sock.sendall(b"GET /ok HTTP/1.1\r\nHost: shop.example\r\n\r\n")
            return sock.recv(65536)[9:12].decode("latin-1"), sock.session
    except OSError as error:
        return str(error), None
