"""TLS, HTTP/2 and the PROXY protocol: what stand-ins tell of them, and the client that speaks them."""

import json
import socket

import pytest
from msgspec.structs import replace

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.http2_client import Http2Client, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.transport import ClientTls, Transport, TransportOptions, transport_for
from lbgen.plan.request import Request
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common.certificates import ENDPOINT_NAME, temporary_certificates
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn, StandInTls, decode_list, encode_list
from lbgen.spec.load import load

HOST = ("Host", "h")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def file(name: str) -> str:
    return str(temporary_certificates() / name)


def tls(**given) -> ClientTls:
    return ClientTls(**{"sni": ENDPOINT_NAME, "ca": file("ca.crt"), "alpn": ("http/1.1",)} | given)


@pytest.fixture
def serve():
    running = []

    def start(**given) -> tuple[str, int]:
        stand_in = StandIn("p-0", "p", "127.0.0.1", free_port(), **given)
        manager = stand_in_servers(decode_list(encode_list([stand_in])))
        manager.__enter__()
        running.append(manager)
        return "127.0.0.1", stand_in.port

    yield start
    for manager in running:
        manager.__exit__(None, None, None)


def secured(name: str = "endpoint", **given) -> StandInTls:
    return StandInTls(file(f"{name}.crt"), file(f"{name}.key"), **given)


def control(**fields) -> tuple[str, str]:
    return (CONTROL, json.dumps(fields))


@pytest.mark.parametrize("name", ["endpoint", "endpoint-rsa", "expired", "foreign", "wrong-name"])
def test_certificates_are_what_they_are_called(serve, name) -> None:
    at = serve(tls=secured(name))
    answer = fetch(at, Request(headers=(HOST,)), transport=Transport(tls=tls()))
    if name.startswith("endpoint"):
        told = account_of(answer)
        assert told["tls"] == {"version": "TLSv1.3", "alpn": "http/1.1", "sni": ENDPOINT_NAME, "client": None}
        assert ENDPOINT_NAME in answer.handshake.names
    elif name == "wrong-name":
        assert answer.handshake.names == ("other.internal",)
    else:
        assert answer.status is None
        assert "verify failed" in answer.problem


@pytest.mark.parametrize(
    ("certificate", "required", "passes"),
    [("client", True, True), ("client-rsa", True, True), ("", True, False), ("", False, True)]
    + [(bad, required, False) for bad in ("client-foreign", "client-expired") for required in (True, False)],
)
def test_client_certificates(serve, certificate, required, passes) -> None:
    at = serve(tls=secured(client_ca=file("client-ca.crt"), client_required=required))
    answer = fetch(at, Request(headers=(HOST,)), transport=Transport(tls=tls(certificate=certificate)))
    if passes:
        assert account_of(answer)["tls"]["client"] == (certificate or None)
    else:
        assert (answer.status, answer.after != "open") == (None, True)


@pytest.mark.parametrize("tls_to", [None, tls(alpn=("h2",))])
def test_http2(serve, tls_to) -> None:
    at = serve(tls=None if tls_to is None else secured())
    transport = Transport(tls=tls_to, http2=True)
    answer = fetch(at, Request("POST", "/a?b", (HOST, ("X-A", "1")), body=b"x" * 100_000), transport=transport)
    told = account_of(answer)
    assert (told["version"], told["method"], told["target"], told["body_length"]) == ("2", "POST", "/a?b", 100_000)
    assert ["host", "h"] in told["headers"]
    assert ["x-a", "1"] in told["headers"]
    head = fetch(at, Request("HEAD", "/", (HOST,)), transport=transport)
    assert (head.status, head.body, account_of(head)["method"]) == (200, b"", "HEAD")
    fixed = control(mode="fixed", status=418, body="ab", size=200_001, headers=[["X-B", "2"]], trailers=[["x-t", "3"]])
    got = fetch(at, Request(headers=(HOST, fixed)), transport=transport)
    assert (got.status, len(got.body), got.header("x-b"), got.trailers) == (418, 200_001, "2", (("x-t", "3"),))
    for mode in ("close", "reset", "garbage", "cut_body", "reset_body"):
        broken = fetch(at, Request(headers=(HOST, control(mode=mode))), transport=transport)
        assert (broken.complete, broken.after) == (False, "closed"), mode


def test_http2_streams_at_once_and_echo(serve) -> None:
    at = serve()
    with ClientConnection(at, transport=Transport(http2=True)) as stream:
        client = Http2Client(stream)
        slow = client.send(Request(headers=(HOST, control(mode="hang", wait_ms=300))))
        quick = client.send(Request("GET", "/q", (HOST,)))
        assert account_of(client.read_answer(quick))["target"] == "/q"
        assert not client.halves[slow].ended
        assert client.read_answer(slow).status == 200
        echo = Request("POST", "/e", (HOST, control(mode="stream", trailers=[["grpc-status", "0"]])))
        headers = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/e"), (b":authority", b"h")]
        number = client.send_head([*headers, (CONTROL.encode(), echo.headers[1][1].encode())], method="POST", end=False)
        client.send_body(number, b"one", end=False)
        while client.halves[number].body != b"one":
            assert client.receive()
        client.send_body(number, b"two")
        answer = client.read_answer(number)
        assert (answer.body, answer.trailers) == (b"onetwo", (("grpc-status", "0"),))


LISTENER = resolve(
    load(
        {
            "version": 1,
            "name": "t",
            "listeners": {"web": {"port": 8080, "proxy_protocol": "accept"}},
            "routes": [{"name": "r", "respond": {"status": 200}}],
        }
    )
).listener("web")


@pytest.mark.parametrize("how", ["v1", "v2"])
@pytest.mark.parametrize("client", ["192.0.2.7", "2001:db8::7"])
@pytest.mark.parametrize("secure", [False, True])
def test_proxy_header(serve, how, client, secure) -> None:
    at = serve(proxied=True, tls=secured() if secure else None)
    request = Request(headers=(HOST,), client=client)
    transport = replace(transport_for(LISTENER, request, TransportOptions(proxy=how)), tls=tls() if secure else None)
    told = account_of(fetch(at, request, transport=transport))["proxy"]
    assert (told["version"], told["source"], told["destination_port"]) == (int(how[1]), client, 8080)


@pytest.mark.parametrize("begin", [b"", b"PROXY", b"PROXY TCP4 1.2.3.4", b"\r\n\r\n\x00\r\nQUIT\n\x11\x11\x00\x00"])
def test_no_proxy_header_no_answer(serve, begin) -> None:
    at = serve(proxied=True)
    answer = fetch(at, Request(headers=(HOST,)), transport=Transport(proxy=begin), timeout=2)
    assert (answer.status, answer.after != "open") == (None, True)


def test_plain_bytes_to_tls(serve) -> None:
    answer = fetch(serve(tls=secured()), Request(headers=(HOST,)), timeout=2)
    assert (answer.status, answer.after != "open") == (None, True)
    shy = fetch(serve(), Request(headers=(HOST,)), transport=Transport(tls=tls()), timeout=2)
    assert shy.status is None
    assert "WRONG_VERSION_NUMBER" in shy.problem


def test_asked_says_what_it_knows() -> None:
    with pytest.raises(ValueError, match="unknown keys"):
        TransportOptions(tls={"snie": "x"})
