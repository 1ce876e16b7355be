"""Stand-in endpoints answer, fail and echo as asked."""

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn, encode_list


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def talk(port: int, data: bytes, *, shut: bool = False, limit: float = 5) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=limit) as sock:
        sock.sendall(data)
        if shut:
            sock.shutdown(socket.SHUT_WR)
        got = b""
        while part := sock.recv(65536):
            got += part
        return got


@pytest.fixture
def one():
    port = free_port()
    with stand_in_servers([StandIn("a-0", "a", "127.0.0.1", port)]) as group:
        yield group, port


def body(answer: bytes) -> dict:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_accounts_for_the_raw_request(one) -> None:
    group, port = one
    got = body(talk(port, b"FOO /a%2f?b=c HTTP/1.1\r\nHost: x\r\nA_b: 1\r\na_B: 2\r\nConnection: close\r\n\r\n"))
    assert (got["name"], got["pool"], got["method"], got["target"]) == ("a-0", "a", "FOO", "/a%2f?b=c")
    assert got["path"] == "/a%2f"
    assert got["headers"] == [["Host", "x"], ["A_b", "1"], ["a_B", "2"], ["Connection", "close"]]
    assert group.requests["a-0"] == group.connections["a-0"] == 1


def test_keeps_connections_and_reads_chunks(one) -> None:
    group, port = one
    first = (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nT: 1\r\n\r\n"
    )
    got = talk(port, first + b"GET /2 HTTP/1.0\r\n\r\n")
    assert b'"body_length": 5' in got
    assert b'"target": "/2"' in got
    assert group.connections["a-0"] == 1
    assert group.requests["a-0"] == 2


def test_expect_and_head(one) -> None:
    _, port = one
    got = talk(port, b"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    got = talk(port, b"HEAD / HTTP/1.0\r\n\r\n")
    assert got.endswith(b"\r\n\r\n")
    assert b"x-stand-in-saw" in got


def test_websocket_echo(one) -> None:
    _, port = one
    shake = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    masked = bytes([0x81, 0x82, 1, 2, 3, 4, ord("h") ^ 1, ord("i") ^ 2]) + bytes([0x88, 0x80, 0, 0, 0, 0])
    got = talk(port, shake + masked)
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in got
    assert got.endswith(b"\x81\x02hi\x88\x00")


def control(how: dict) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: x\r\nX-Stand-In: " + json.dumps(how).encode() + b"\r\nConnection: close\r\n\r\n"


def test_faults(one) -> None:
    _, port = one
    assert talk(port, control({"mode": "close"})) == b""
    with pytest.raises(ConnectionResetError):
        talk(port, control({"mode": "reset"}))
    with pytest.raises(ConnectionResetError):
        talk(port, control({"mode": "reset_body"}))
    assert b"HTTP/1.1" not in talk(port, control({"mode": "garbage"}))
    assert b"content-length" not in talk(port, control({"mode": "half_close"})).lower()
    begun = time.monotonic()
    got = talk(port, control({"mode": "drip", "wait_ms": 50, "count": 4}))
    assert got.endswith(b"0\r\n\r\n")
    assert time.monotonic() - begun > 0.2
    fixed = {"mode": "fixed", "status": 418, "headers": [["server", "x"], ["set-cookie", "a"]], "body": "no"}
    got = talk(port, control(fixed))
    assert got.startswith(b"HTTP/1.1 418 ")
    assert b"\r\nserver: x\r\nset-cookie: a\r\n" in got
    assert got.endswith(b"\r\n\r\nno")
    assert talk(port, control({"mode": "nonsense"})).startswith(b"HTTP/1.1 400")
    assert talk(port, b"junk\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_listening_faults_and_echo() -> None:
    refuse, drop, echo = free_port(), free_port(), free_port()
    stand_ins = [
        StandIn("r", "p", "127.0.0.1", refuse, listen="refuse"),
        StandIn("d", "p", "127.0.0.1", drop, listen="drop"),
        StandIn("e", "p", "127.0.0.1", echo, Behaviour("echo")),
    ]
    with stand_in_servers(stand_ins):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", refuse), timeout=1)
        with pytest.raises(TimeoutError):
            socket.create_connection(("127.0.0.1", drop), timeout=0.5)
        assert talk(echo, b"\x00\xff\n", shut=True) == b"\x00\xff\nend of e\n"
        with pytest.raises(EngineError, match="LB404"), stand_in_servers(stand_ins[2:]):
            pass


def test_stops_with_open_connections() -> None:
    port = free_port()
    sock = socket.socket()
    with stand_in_servers([StandIn("a", "a", "127.0.0.1", port)]):
        sock.connect(("127.0.0.1", port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(control({"mode": "hang"}))
        time.sleep(0.05)
    sock.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_as_a_process(tmp_path: Path) -> None:
    port = free_port()
    listed, file = [StandIn("a", "a", "127.0.0.1", port)], tmp_path / "list.json"
    argv = [sys.executable, "-m", "lbgen.runtime.standins.server", str(file)]

    def write() -> None:
        file.write_bytes(encode_list(listed))

    write()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert body(talk(port, b"GET / HTTP/1.0\r\n\r\n"))["name"] == "a"
        listed.append(StandIn("b", "b", "127.0.0.1", port))
        write()
        process.send_signal(signal.SIGHUP)
        assert "cannot listen" in process.stdout.readline()
        listed[1] = StandIn("b", "b", "127.0.0.1", free_port())
        write()
        process.send_signal(signal.SIGHUP)
        while (said := process.stdout.readline()) != "ready\n":
            assert said.strip()  # the rest of what was said before
        for each in listed:
            assert body(talk(each.port, b"GET / HTTP/1.0\r\n\r\n"))["name"] == each.name
        process.terminate()


def test_stops_and_starts_listening(one) -> None:
    group, port = one
    request = b"GET / HTTP/1.0\r\n\r\n"
    for _ in range(2):
        group.listen("a-0", "refuse")
        with pytest.raises(ConnectionRefusedError):
            talk(port, request)
        group.listen("a-0", "drop")
        with pytest.raises(TimeoutError):
            talk(port, request, limit=0.3)
        group.listen("a-0", "yes")
        assert body(talk(port, request))["name"] == "a-0"


def test_an_endpoint_that_stops_resets_its_connections(one) -> None:
    group, port = one
    with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert sock.recv(65536)
        group.listen("a-0", "refuse")
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_steps_by_tag_and_behaviour_by_path(one) -> None:
    group, port = one

    def ask(path: str, control: str = "{}") -> bytes:
        return talk(port, f"GET {path} HTTP/1.0\r\nX-Stand-In: {control}\r\n\r\n".encode())

    steps = '{"tag": "%s", "steps": [{"mode": "close"}, {"mode": "fixed", "status": 503}, {}]}'
    assert [ask("/", steps % "x")[9:12] for _ in range(4)] == [b"", b"503", b"200", b"200"]
    assert ask("/", steps % "y") == b""
    assert [seen.name for seen in group.tagged("x")] == ["a-0"] * 4
    group.behave("a-0", Behaviour("fixed", status=500), path="/check")
    assert ask("/check?x=1")[9:12] == b"500"
    assert ask("/")[9:12] == b"200"


def test_datagrams_go_back_with_the_name() -> None:
    port = free_port()
    with stand_in_servers([StandIn("a-0", "a", "127.0.0.1", port, datagrams=True)]) as group:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(2)
            sock.connect(("127.0.0.1", port))
            sock.send(b"hi")
            assert sock.recv(100) == b"a-0: hi"
            group.listen("a-0", "refuse")
            sock.send(b"hi")
            with pytest.raises(ConnectionRefusedError):
                sock.recv(100)
        assert group.requests["a-0"] == 1


def test_who_begins_with_a_request_is_answered_where_bytes_are_sent_back() -> None:
    port = free_port()
    with stand_in_servers([StandIn("a-0", "a", "127.0.0.1", port, Behaviour("echo"), http=True)]) as group:
        assert talk(port, b"hello", shut=True) == b"helloend of a-0\n"
        check = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert body(talk(port, check))["target"] == "/healthz"
        group.behave("a-0", Behaviour("mute", wait_ms=10))
        assert talk(port, b"hello", shut=True) == b""
        assert body(talk(port, check))["name"] == "a-0"
