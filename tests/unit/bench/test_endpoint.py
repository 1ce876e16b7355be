"""How the endpoint reads requests."""

from __future__ import annotations

import socket

import pytest

from lbgen.bench.endpoint import Connection, make_answers, take_requests

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
