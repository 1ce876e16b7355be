"""A gRPC call to a route: servers of gRPC refuse what is no POST over HTTP/2 with `te: trailers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from lbgen.plan.request import Request

if TYPE_CHECKING:
    import socket

_MESSAGE = bytes(5)  # not compressed, of no bytes
_UNAVAILABLE = "14"
_NO_ENDPOINT = (502, 503, 504)


def call(sock: socket.socket, request: Request, scheme: str) -> str:
    """Send the call: empty when a server answered it, whatever its grpc-status, else what came instead.

    A status of UNAVAILABLE is taken for a proxy that reaches no server. Raises OSError.
    """
    connection = H2Connection(H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    host = next((value for name, value in request.headers if name.lower() == "host"), "")
    fields = [(name.lower(), value) for name, value in request.headers if name.lower() != "host"]
    pseudo = [(":method", request.method), (":scheme", scheme), (":path", request.target), (":authority", host)]
    connection.send_headers(1, [*pseudo, *fields])
    connection.send_data(1, _MESSAGE, end_stream=True)
    status, grpc_status = "", ""
    while True:
        sock.sendall(connection.data_to_send())
        data = sock.recv(65536)
        if not data:
            return "closed without an answer"
        try:
            events = connection.receive_data(data)
        except ProtocolError as error:
            return f"{type(error).__name__}: {error}"
        for event in events:
            match event:
                case ResponseReceived(headers=found) | TrailersReceived(headers=found):
                    named = {str(name): str(value) for name, value in found or ()}
                    status = named.get(":status", status)
                    grpc_status = named.get("grpc-status", grpc_status)
                case StreamEnded():
                    return _wrong(int(status or 0), grpc_status)
                case StreamReset(error_code=code):
                    return f"the stream was reset ({code})"
                case ConnectionTerminated(error_code=code):
                    return f"the connection was ended ({code})"


def _wrong(status: int, grpc_status: str) -> str:
    if status in _NO_ENDPOINT:
        return f"no endpoint answers ({status})"
    return "no endpoint answers (grpc-status UNAVAILABLE)" if grpc_status == _UNAVAILABLE else ""
