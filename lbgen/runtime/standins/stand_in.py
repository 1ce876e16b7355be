"""Stand-ins as data: place, behaviour and TLS; apart from the servers, so that planning them takes no event loop."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

Mode = Literal[
    "json",  # 200 with the account as body
    "fixed",  # `status`, `headers`, `body`
    "echo",  # no HTTP: `body`, then bytes back as they come; at the client's end a farewell, then close
    "mute",  # no HTTP: nothing comes back, and after the client's end the connection stays for `wait_ms`
    "deaf",  # the request's body is not read for `wait_ms`, then close (asked for by the request)
    "early",  # as `fixed`, before the request's body is read, then `wait_ms` and close (asked for by the request)
    "close",  # close after the request, nothing sent
    "refuse_stream",  # HTTP/2: the request is refused, the connection stays; HTTP/1: as `close`
    "reset",  # RST after the request, nothing sent
    "reset_body",  # head and half a body, then RST
    "reset_unframed",  # the same without a length, so that nothing but the RST shows that it is half
    "cut_body",  # head and half a body, then close
    "stall_body",  # head and half a body, then silence for `wait_ms`
    "hang",  # silence for `wait_ms`, then the account with `status`
    "drip",  # `count` chunks, `wait_ms` apart
    "garbage",  # bytes that are no HTTP
    "half_close",  # the account without a length, then the sending side is shut
    "stream",  # HTTP/2: `status` and `headers` at once, then the request's bytes as they come, then `trailers`
]
MODES: tuple[str, ...] = Mode.__args__  # type: ignore[attr-defined]  # Literal keeps its words there


class Behaviour(Struct, frozen=True):
    """How an endpoint responds to a request. `wait_ms` is milliseconds; `interim` heads go out before the answer.

    `tag` names the client's request, however often a proxy sends it: all stand-ins count its arrivals together, and the
    n-th arrival is treated as the n-th of `steps` says (the last one from then on).
    """

    mode: str = "json"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    chunked: bool = False
    wait_ms: int = 60_000
    count: int = 5
    interim: tuple[int, ...] = ()
    size: int = 0
    trailers: tuple[tuple[str, str], ...] = ()
    tag: str = ""
    steps: tuple[Behaviour, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"unknown stand-in mode {self.mode!r}; one of: {', '.join(MODES)}")

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Behaviour:
        """From JSON or YAML data; ValueError on an unknown field or mode."""
        try:
            found = cls(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return replace(
            found,
            headers=tuple((str(n), str(v)) for n, v in found.headers),
            interim=tuple(int(x) for x in found.interim),
            trailers=tuple((str(n), str(v)) for n, v in found.trailers),
            steps=tuple(cls.parse(step) for step in found.steps),  # type: ignore[arg-type]  # JSON data until here
        )

    def step(self, before: int) -> Behaviour:
        """Return the behaviour for a request of this tag that has arrived `before` times already."""
        return self.steps[min(before, len(self.steps) - 1)] if self.steps else self


JSON = Behaviour()


class StandInTls(Struct, frozen=True):
    """`certificate` and `key` are PEM files. `client_ca`: clients are asked for a certificate of that authority, and
    one that does not verify ends the handshake; `client_required`: so does none."""

    certificate: str
    key: str
    client_ca: str = ""
    client_required: bool = False
    alpn: tuple[str, ...] = ("h2", "http/1.1")


class StandIn(Struct, frozen=True):
    """One endpoint. `host` is an IP literal. `listen`: `yes`, `refuse` (the port is held but refuses connections) or
    `drop` (the accept queue is full, so connection attempts get no answer). HTTP/1.x and HTTP/2 are both spoken.
    `tls` None = plain; `proxied`: every connection begins with a PROXY header; `datagrams`: UDP instead, each datagram
    goes back with the name before it. `http`: where its behaviour is to send bytes back or to be silent, who begins
    with an HTTP request is answered nevertheless."""

    name: str
    pool: str
    host: str
    port: int
    behaviour: Behaviour = JSON
    listen: str = "yes"
    tls: StandInTls | None = None
    proxied: bool = False
    datagrams: bool = False
    http: bool = False


def encode_list(stand_ins: Iterable[StandIn]) -> bytes:
    """JSON that `decode_list` reads back."""
    return json.dumps(msgspec.to_builtins(tuple(stand_ins)), indent=1).encode()


def decode_list(content: bytes) -> tuple[StandIn, ...]:
    """The stand-ins in a list of `encode_list`. Raises ValueError, msgspec.ValidationError."""
    return msgspec.convert(json.loads(content), tuple[StandIn, ...])
