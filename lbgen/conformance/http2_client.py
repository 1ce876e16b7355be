"""HTTP/2 client of the cases, which validates nothing that it sends."""

from __future__ import annotations

import time
from collections.abc import Iterable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from msgspec import Struct, field

from lbgen.conformance import http1_client
from lbgen.conformance.http1_client import TIMEOUT, Address, Answer, ClientConnection, connection_failure
from lbgen.conformance.transport import PLAIN, Transport
from lbgen.plan.request import Headers, Request

Pairs = list[tuple[bytes, bytes]]


class _PendingAnswer(Struct):
    """An answer that is coming in."""

    method: str
    status: int | None = None
    headers: Headers = ()
    trailers: Headers = ()
    body: bytearray = field(default_factory=bytearray)
    interim: list[int] = field(default_factory=list)
    ended: bool = False
    problem: str = ""
    arrivals: list[float] = field(default_factory=list)


class Http2Client:
    """One connection over an open `ClientConnection`; requests and answers by stream number."""

    def __init__(self, stream: ClientConnection) -> None:
        self.stream = stream
        # Cases send malformed requests on purpose.
        config = H2Configuration(
            client_side=True,
            header_encoding="latin-1",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.connection = H2Connection(config)
        self.halves: dict[int, _PendingAnswer] = {}
        self.gone = ""
        self.connection.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """Send the pending frames."""
        self.stream.send(self.connection.data_to_send())

    def send_head(self, headers: Pairs, *, method: str = "GET", end: bool = True) -> int:
        """Send a head; the number of its stream."""
        number = self.connection.get_next_available_stream_id()
        self.halves[number] = _PendingAnswer(method)
        self.connection.send_headers(number, headers, end_stream=end)
        self.flush()
        return number

    def send(self, request: Request) -> int:
        """Send a whole request; the number of its stream. The server's window is waited for."""
        number = self.send_head(header_list(request, self.stream.secure), method=request.method, end=not request.body)
        if request.body:
            self.send_body(number, request.body)
        return number

    def send_body(self, number: int, data: bytes, *, end: bool = True) -> None:
        """Send body bytes as the server's windows allow; stops when the server has ended the stream."""
        half = self.halves[number]
        while data:
            room = min(self.connection.local_flow_control_window(number), self.connection.max_outbound_frame_size)
            if room <= 0:
                if not self.receive() or half.problem or half.ended:
                    return
                continue
            self.connection.send_data(number, data[:room])
            data = data[room:]
            self.flush()
        if end:
            self.connection.end_stream(number)
            self.flush()

    def receive(self, wait: float | None = None) -> bool:
        """Read some more; False at the end, when time is over or the server breaks the protocol."""
        if not self.stream.read_more(wait):
            if self.stream.end != "open" and not self.gone:
                self.gone = f"the connection is {self.stream.end}"
            return False
        try:
            events = self.connection.receive_data(self.stream.take(len(self.stream.buffer)))
        except ProtocolError as error:
            self.gone = f"broken HTTP/2: {type(error).__name__} {error}"
            return False
        for event in events:
            self._take(event)
        self.flush()
        return True

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self.gone = f"GOAWAY {event.error_code}"
            for ours, waiting in self.halves.items():
                if not waiting.ended and ours > (event.last_stream_id or 0):
                    waiting.problem = self.gone
            return
        number = getattr(event, "stream_id", None)
        if number not in self.halves:
            return
        half = self.halves[number]
        match event:
            case InformationalResponseReceived():
                half.interim.append(int(_plain(event.headers or ())[0][1]))
            case ResponseReceived():
                headers = _plain(event.headers or ())
                half.status = int(headers[0][1])
                half.headers = headers[1:]
            case DataReceived(data=bytes(data), flow_controlled_length=int(length)):
                half.body += data
                half.arrivals.append(time.monotonic() - self.stream.begun)
                if length:
                    self.connection.acknowledge_received_data(length, event.stream_id or 0)
            case TrailersReceived():
                half.trailers = _plain(event.headers or ())
            case StreamEnded():
                half.ended = True
            case StreamReset():
                half.problem = f"RST_STREAM {event.error_code}"

    def read_answer(self, number: int) -> Answer:
        """Wait for the answer on that stream; malformed bytes raise nothing."""
        half = self.halves[number]
        while not half.ended and not half.problem and self.receive():
            pass
        problem = half.problem or ("" if half.ended else self.gone or "no end of the answer in time")
        length = next((v for n, v in half.headers if n == "content-length"), None)
        if half.ended and length is not None and half.method != "HEAD" and half.status not in (204, 304):
            problem = "" if length == str(len(half.body)) else f"content-length {length}, {len(half.body)} bytes came"
        closed = half.problem or self.gone
        return Answer(
            half.status,
            version="2",
            headers=half.headers,
            body=bytes(half.body),
            complete=half.ended and not problem,
            after="closed" if closed else self.stream.end,
            problem=problem,
            interim=tuple(half.interim),
            elapsed=time.monotonic() - self.stream.begun,
            trailers=half.trailers,
            handshake=self.stream.handshake,
        )


def _plain(headers: Iterable[tuple[str | bytes, str | bytes]]) -> Headers:
    return tuple((_text(n), _text(v)) for n, v in headers)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def raw_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of RFC 9113, however malformed."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def header_list(request: Request, secure: bool) -> Pairs:
    """The header list of `request`: Host becomes `:authority`, names lower-case; a body gets its length."""
    hosts = [v for n, v in request.headers if n.lower() == "host"]
    found = [(":method", request.method), (":scheme", "https" if secure else "http"), (":path", request.target)]
    found += [(":authority", hosts[0])] if hosts else []
    found += [(n.lower(), v) for n, v in request.headers if n.lower() != "host"]
    if request.body and not any(n == "content-length" for n, _ in found):
        found.append(("content-length", str(len(request.body))))
    return [(n.encode("latin-1"), v.encode("latin-1")) for n, v in found]


def fetch(address: Address, request: Request, *, timeout: float = TIMEOUT, transport: Transport = PLAIN) -> Answer:
    """Send `request` over a connection of its own, HTTP/2 or HTTP/1.x as `via` says, and read the answer."""
    if not transport.http2:
        return http1_client.fetch(address, request, timeout=timeout, transport=transport)
    try:
        with ClientConnection(address, client=request.client, timeout=timeout, transport=transport) as stream:
            client = Http2Client(stream)
            return client.read_answer(client.send(request))
    except OSError as error:
        return connection_failure(address, error)
