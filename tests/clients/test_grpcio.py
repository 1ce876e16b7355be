"""grpcio (the client of Python, and by its core of C++, Ruby, PHP) calls a grpcio server, in the clear and over TLS."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.endpoints import SERVICE, content
from tests.clients.place import CLEAR, SECURE, Both, Place, assert_equal

if TYPE_CHECKING:
    from collections.abc import Iterator

grpc = pytest.importorskip("grpc", reason="no grpcio here")

pytestmark = pytest.mark.engines
LIMITS = [("grpc.max_receive_message_length", 1 << 25), ("grpc.enable_http_proxy", 0)]
MANY = 60
ADDED = {
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-request-id",
    "via",
    "accept-encoding",
}


@pytest.fixture(params=[CLEAR, SECURE], ids=["h2c", "tls"])
def listener(request: pytest.FixtureRequest) -> str:
    return request.param


@contextmanager
def channel(place: Place, listener: str, service: str = SERVICE) -> Iterator[Any]:
    """A connection of its own."""
    place.has(listener)
    host, port = place.address(f"/{service}", listener)
    options = [*LIMITS, ("grpc.use_local_subchannel_pool", 1)]
    if place.is_tls(listener):
        ca = grpc.ssl_channel_credentials((place.folder / "ca.crt").read_bytes())
        made = grpc.secure_channel(f"{host}:{port}", ca, options)
    else:
        made = grpc.insecure_channel(f"{host}:{port}", options)
    with made:
        yield made


def error(failed: Any) -> dict[str, Any]:
    return {"code": failed.code().name, "details": failed.details(), "trailers": metadata(failed.trailing_metadata())}


def metadata(fields: Any) -> list[tuple[str, Any]]:
    """What the server set itself."""
    return sorted((key, value) for key, value in fields or () if key.startswith("x-") and key not in ADDED)


def unary(place: Place, listener: str) -> Any:
    given = (("x-one", "1"), ("x-two", "a, b"), ("x-blob-bin", b"\x00\xfe"))
    with channel(place, listener) as at:
        answer, call = at.unary_unary(f"/{SERVICE}/Unary").with_call(b"hello", metadata=given, timeout=10)
    return {
        "message": json.loads(answer),
        "code": call.code().name,
        "initial": metadata(call.initial_metadata()),
        "trailing": metadata(call.trailing_metadata()),
    }


def test_grpcio_unary(both: Both, listener: str) -> None:
    assert both.same(unary, listener)["code"] == "OK"


def all_metadata(place: Place, listener: str) -> Any:
    with channel(place, listener) as at:
        return json.loads(at.unary_unary(f"/{SERVICE}/Metadata")(b"", metadata=(("x-one", "1"),), timeout=10))


def test_grpcio_metadata(both: Both, listener: str) -> None:
    """Metadata that the client did not send: only X-Forwarded-* and X-Request-Id."""
    wanted, got = both.direct.once(all_metadata, listener), all_metadata(both.through, listener)
    assert_equal(wanted, [each for each in got if each[0] not in ADDED], both.through)


def streams(place: Place, listener: str) -> Any:
    with channel(place, listener) as at:
        return {
            "server": [int(x) for x in at.unary_stream(f"/{SERVICE}/ServerStream")(b"500", timeout=10)],
            "client": at.stream_unary(f"/{SERVICE}/ClientStream")(iter([b"x" * 1000] * 500), timeout=10),
            "bidi": list(at.stream_stream(f"/{SERVICE}/Bidi")(iter([b"a", b"b" * 100_000, b""]), timeout=10)),
        }


@pytest.mark.parametrize("kind", ["server", "client", "bidi"])
def test_grpcio_stream(both: Both, listener: str, kind: str) -> None:
    wanted = both.direct.once(streams, listener)
    assert both.through.once(streams, listener)[kind] == wanted[kind]


def test_grpcio_bidi_in_turns(both: Both, listener: str) -> None:
    """Each message is answered before the next one is sent: nothing is held back."""
    with channel(both.through, listener) as at:
        said: list[bytes] = [b"0"]

        def messages() -> Iterator[bytes]:
            for number in range(20):
                end = time.monotonic() + 5
                while len(said) <= number and time.monotonic() < end:
                    time.sleep(0.001)
                yield b"m%d" % number

        for each in at.stream_stream(f"/{SERVICE}/Bidi")(messages(), timeout=10):
            said.append(each)
    assert said[1:] == [b"M%d" % number for number in range(20)]


def large(place: Place, listener: str) -> Any:
    with channel(place, listener) as at:
        up = json.loads(at.unary_unary(f"/{SERVICE}/Unary")(content(8_000_000), timeout=20))[1:]
        return up, at.unary_unary(f"/{SERVICE}/Large")(b"8000000", timeout=20) == content(8_000_000)


def test_grpcio_large_message(both: Both, listener: str) -> None:
    assert both.same(large, listener)[1]


def failing(place: Place, listener: str, method: str = "Missing", request: bytes = b"x", stream: bool = False) -> Any:
    with channel(place, listener) as at:
        got = []
        try:
            if stream:
                got += at.unary_stream(f"/{SERVICE}/{method}")(request, timeout=10)  # ended by the error
            else:
                at.unary_unary(f"/{SERVICE}/{method}")(request, timeout=10)
        except grpc.RpcError as failed:
            return error(failed)
        return got


def test_grpcio_not_found(both: Both, listener: str) -> None:
    assert both.same(failing, listener)["code"] == "NOT_FOUND"


def test_grpcio_unknown_method(both: Both, listener: str) -> None:
    assert both.same(failing, listener, "Nothing")["code"] == "UNIMPLEMENTED"


def test_grpcio_error_after_messages(both: Both, listener: str) -> None:
    assert both.same(failing, listener, "BrokenStream", stream=True)["code"] == "RESOURCE_EXHAUSTED"


def test_grpcio_60_not_found(both: Both, listener: str) -> None:
    """On one connection, one after the other."""
    codes = []
    with channel(both.through, listener) as at:
        call = at.unary_unary(f"/{SERVICE}/Missing")
        for _ in range(MANY):
            with pytest.raises(grpc.RpcError) as failed:
                call(b"x", timeout=10)
            codes.append(f"{failed.value.code().name}: {failed.value.details()}")
            if len(codes) == 3 and "NOT_FOUND" not in "".join(codes):
                break  # nothing works
    assert set(codes) == {"NOT_FOUND: no x \N{SNOWMAN}"}, f"{codes.count(max(codes))} of {len(codes)}: {max(codes)}"


def deadline(place: Place, listener: str) -> Any:
    begun = time.monotonic()
    with channel(place, listener) as at, pytest.raises(grpc.RpcError) as failed:
        list(at.unary_stream(f"/{SERVICE}/Wait")(b"", timeout=0.5))
    return failed.value.code().name, time.monotonic() - begun < 2


def test_grpcio_deadline(both: Both, listener: str) -> None:
    assert both.same(deadline, listener) == ("DEADLINE_EXCEEDED", True)
    assert both.same(unary, listener)["code"] == "OK"  # the next one is served


def test_grpcio_cancel(both: Both, listener: str) -> None:
    """The server hears of it, and the same connection serves the next call."""
    with channel(both.through, listener) as at:
        before = both.stats()["cancelled"]
        call = at.unary_stream(f"/{SERVICE}/Wait")(b"", timeout=10)
        assert next(call) == b"waiting"
        call.cancel()
        both.until(lambda: both.stats()["cancelled"] > before)
        assert at.unary_unary(f"/{SERVICE}/Unary")(b"x", timeout=10)


def test_grpcio_client_closes_channel(both: Both, listener: str) -> None:
    """In the middle of a call: the server hears of it."""
    before = both.stats()["cancelled"]
    with channel(both.through, listener) as at:
        call = at.unary_stream(f"/{SERVICE}/Wait")(b"", timeout=10)
        assert next(call) == b"waiting"
    both.until(lambda: both.stats()["cancelled"] > before)


def early(place: Place, listener: str) -> Any:
    """A call that the server refuses while the client sends messages, which it goes on with for a while."""
    with channel(place, listener) as at, pytest.raises(grpc.RpcError) as failed:
        at.stream_unary(f"/{SERVICE}/Early")((b"x" * 10_000 for _ in range(100)), timeout=10)
    return error(failed.value)


def test_grpcio_refused_early(both: Both, listener: str) -> None:
    for _ in range(5):
        assert both.same(early, listener)["code"] == "UNAUTHENTICATED"
    assert both.same(unary, listener)["code"] == "OK"


def unavailable(place: Place, listener: str, service: str) -> Any:
    with channel(place, listener, f"lbgen.test.{service}") as at, pytest.raises(grpc.RpcError) as failed:
        at.unary_unary(f"/lbgen.test.{service}/Unary")(b"", timeout=10)
    return failed.value.code().name


@pytest.mark.parametrize("service", ["Dead", "Broken"])
def test_grpcio_endpoint_fails(both: Both, listener: str, service: str) -> None:
    """Nobody listens, or each connection is reset: UNAVAILABLE, as without a proxy."""
    assert both.same(unavailable, listener, service) == "UNAVAILABLE"
