"""Clients of a serving engine: those that attack, and those that only want an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client
from lbgen.conformance.safety.corpus import Attack, Target, new_mark
from lbgen.conformance.safety.endpoint import MARK
from lbgen.conformance.transport import transport_for, without_verification
from lbgen.plan.request import Request

if TYPE_CHECKING:
    from lbgen.conformance.wait_ready import ServingEngine
    from lbgen.plan.model import Plan

_ATTACK_SECONDS = 0.6  # one that waits for more bytes is given up
_QUIET_SECONDS = 0.05  # behind an answer no more bytes are expected
_INNOCENT_SECONDS = 4.0


class Clients(Struct, frozen=True):
    """Clients of the engine at `handle`, which serves `plan`."""

    plan: Plan
    handle: ServingEngine

    def connect(
        self, target: Target, *, client: str = "127.0.0.1", version: str = "1.1", seconds: float
    ) -> ClientConnection:
        """A connection to the target's listener, as that listener expects it. Raises OSError."""
        listener = self.plan.listener(target.listener)
        request = Request(headers=(("Host", target.host),), listener=listener.name, client=client, version=version)
        transport = transport_for(listener, request, without_verification(listener, request))
        return ClientConnection(self.handle.address(listener.name), timeout=seconds, transport=transport)

    def attack(self, attack: Attack) -> bytes:
        """Send an attack over a connection of its own, and return what comes back. Raises OSError."""
        version = "2" if attack.fields else "1.1"
        with self.connect(attack.target, client=attack.client, version=version, seconds=_ATTACK_SECONDS) as stream:
            if attack.fields:
                return _send_http2(stream, attack)
            stream.send(attack.data)
            wait = None
            while stream.read_more(wait):
                wait = _QUIET_SECONDS
            return bytes(stream.buffer)

    def serve_innocent(self, target: Target, times: int = 1) -> Iterator[str]:
        """Send plain requests of another client; what is wrong with their answers."""
        for _ in range(times):
            mark = new_mark()
            try:
                with self.connect(target, seconds=_INNOCENT_SECONDS) as stream:
                    stream.send(f"GET {target.open}/{mark} HTTP/1.1\r\nHost: {target.host}\r\n\r\n".encode())
                    answer = stream.read_answer()
            except OSError as error:
                yield f"another client cannot connect: {error}"
                continue
            marks = {each.decode() for each in MARK.findall(answer.body)}
            if answer.status != 200 or marks != {mark}:
                yield f"another client got {answer.status} {answer.problem} with {marks or 'no mark'}, not {mark}"


def _send_http2(stream: ClientConnection, attack: Attack) -> bytes:
    client = Http2Client(stream)
    fields, trailers = (
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        for pairs in (attack.fields, attack.trailers)
    )
    number = client.send_head(fields, end=not (attack.body or trailers))
    if attack.body:
        client.send_body(number, attack.body, end=not trailers)
    if trailers:
        client.connection.send_headers(number, trailers, end_stream=True)
        client.flush()
    return client.read_answer(number).body
