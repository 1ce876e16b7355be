"""The generator of constant rate: latency from the time at which requests were due, also while a server stalls."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from lbgen.bench import endpoint
from lbgen.bench.constant_rate import answer_length, percentiles
from lbgen.bench.load import Load, LoadShape, constant_rate_command, read_constant_rate, run_generator
from lbgen.bench.target import LoadTarget
from lbgen.conformance.free_ports import FreePorts
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import accepts

TARGET = LoadTarget("web", "all", "/data", (("Host", "a.example"),), "")
HERE = "127.0.0.1"
HEAD = b"HTTP/1.1 200 OK\r\nDate: today"


@contextmanager
def served():
    """The endpoint of the benchmark: its process and port."""
    port = FreePorts().take()
    order = json.dumps({"addresses": [HERE], "ports": [port], "body_bytes": 5120})
    with subprocess.Popen([sys.executable, "-I", "-S", endpoint.__file__, order]) as process:
        try:
            while not accepts(HERE, port):
                assert process.poll() is None
                time.sleep(0.02)
            yield process, port
        finally:
            process.kill()


def send(port: int, shape: LoadShape, seconds: int) -> Load:
    command = constant_rate_command(shape, TARGET, (HERE, port), seconds)
    return read_constant_rate(run_generator(command, seconds + 6, lambda: None))


@pytest.mark.measures
def test_a_server_that_stalls_delays_all_that_became_due() -> None:
    """One stall of a tenth of the run: of the requests due in it, the latency is what is left of the stall."""
    seconds, rate = 6, 150
    stall: list[float] = []
    with served() as (process, port):

        def stop_for_a_while() -> None:
            time.sleep(2.5)
            os.kill(process.pid, signal.SIGSTOP)
            begin = time.monotonic()
            time.sleep(seconds / 10)
            os.kill(process.pid, signal.SIGCONT)
            stall.append(time.monotonic() - begin)

        other = threading.Thread(target=stop_for_a_while)
        other.start()
        found = send(port, LoadShape(20, rate), seconds)
        other.join()
    assert (found.requests, found.errors, found.refused) == (seconds * rate, 0, 0)
    # A share q of all requests waits longer than the stall less q of the run, as those are due evenly.
    expected = {q: (stall[0] - q * seconds) * 1000 for q in (0.05, 0.01)}
    assert found.p95_ms == pytest.approx(expected[0.05], rel=0.1)
    assert found.p99_ms == pytest.approx(expected[0.01], rel=0.1)
    assert found.p50_ms < 30


@pytest.mark.measures
@pytest.mark.parametrize("keep_alive", [True, False])
def test_requests_are_sent_at_the_rate(keep_alive: bool) -> None:
    with served() as (_, port):
        found = send(port, LoadShape(5, 300, keep_alive=keep_alive), 1)
    assert (found.requests, found.errors, found.refused) == (300, 0, 0)
    assert 200 < found.per_second < 310


@pytest.mark.measures
def test_connections_that_break_are_errors() -> None:
    with socket.create_server((HERE, 0)) as server:
        server.settimeout(10)

        def answer_one_and_close() -> None:
            for number in range(3):
                client, _ = server.accept()
                with client:
                    client.recv(1000)
                    client.sendall(HEAD + b"\r\nContent-Length: 0\r\n\r\n" if number == 0 else b"HTTP/1.1 503 N")

        other = threading.Thread(target=answer_one_and_close)
        other.start()
        command = constant_rate_command(LoadShape(1, 3, keep_alive=False), TARGET, (HERE, server.getsockname()[1]), 1)
        found = read_constant_rate(run_generator(command, 10, lambda: None))
        other.join()
    assert (found.requests, found.errors) == (1, 2)


def test_the_end_of_an_answer_is_found() -> None:
    assert answer_length(HEAD + b"\r\nContent-Length: 7\r\n") is None
    assert answer_length(HEAD + b"\r\nContent-Length: 7\r\n\r\n") == len(HEAD) + 23 + 7
    assert answer_length(HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n") == -1
    assert answer_length(HEAD + b"\r\n\r\n") == len(HEAD) + 4


def test_percentiles_by_nearest_rank() -> None:
    found = percentiles([float(number) for number in range(1000, 0, -1)])
    assert found == {"50": 500.0, "95": 950.0, "99": 990.0, "99.9": 999.0, "100": 1000.0}
    assert percentiles([]) == {}


@pytest.mark.parametrize("output", ["", "Traceback", "{}", '{"answered": 0}'])
def test_output_without_figures_is_an_error(output: str) -> None:
    with pytest.raises(EngineError) as caught:
        read_constant_rate(output)
    assert caught.value.diagnostics[0].code == "LB430"
