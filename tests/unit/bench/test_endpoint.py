"""How the endpoint reads requests."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import pytest

from lbgen.bench import endpoint
from lbgen.bench.endpoint import Connection, make_answers, take_requests
from lbgen.conformance.free_ports import FreePorts
from lbgen.runtime.common.ports import accepts

ANSWERS = make_answers(100)
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def connection():
    with socket.socket() as client:
        yield Connection(client)


def test_an_answer_has_as_many_bytes_as_it_says() -> None:
    head, _, body = ANSWERS[False, False].partition(b"\r\n\r\n")
    assert len(body) == 100
    assert b"\r\nContent-Length: 100" in head
    assert ANSWERS[False, True] == head + b"\r\n\r\n"


def test_pipelined_requests_get_an_answer_each(connection) -> None:
    assert take_requests(connection, GET + GET, ANSWERS) == ANSWERS[False, False] * 2


def test_a_request_in_pieces_gets_one_answer(connection) -> None:
    found = [take_requests(connection, bytes([byte]), ANSWERS) for byte in GET]
    assert b"".join(found) == found[-1] == ANSWERS[False, False]


def test_a_body_is_skipped_also_in_pieces(connection) -> None:
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n"
    assert take_requests(connection, post + b"GET", ANSWERS) == ANSWERS[False, False]
    assert take_requests(connection, b" / " + GET, ANSWERS) == ANSWERS[False, False]


def test_a_head_has_no_body_and_close_is_said(connection) -> None:
    assert take_requests(connection, GET.replace(b"GET", b"HEAD"), ANSWERS) == ANSWERS[False, True]
    closing = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert take_requests(connection, closing + GET, ANSWERS) == ANSWERS[True, False]
    assert connection.close


def test_a_port_with_a_delay_answers_late() -> None:
    ports = FreePorts()
    late, prompt = ports.take(), ports.take()
    order = {"addresses": ["127.0.0.1"], "ports": [late, prompt], "body_bytes": 10, "delays": {late: [0.2, 0.3]}}
    with subprocess.Popen([sys.executable, "-I", "-S", endpoint.__file__, json.dumps(order)]) as process:
        try:
            while not (accepts("127.0.0.1", late) and accepts("127.0.0.1", prompt)):
                time.sleep(0.02)
            took = {}
            for port in (late, prompt):
                with socket.create_connection(("127.0.0.1", port), 5) as client:
                    begun = time.monotonic()
                    client.sendall(GET)
                    assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
                    took[port] = time.monotonic() - begun
        finally:
            process.kill()
    assert took[prompt] < 0.2 <= took[late] < 1
