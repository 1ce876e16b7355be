"""Traefik's real binary on L4 listeners."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.engines.traefik import ENGINE
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
HOST = "127.0.0.1"
PORTS = 23_700
NAMES = ("sni", "sources", "guarded", "udp")


@contextmanager
def naming(name: bytes, kind: socket.SocketKind) -> Iterator[int]:
    """An endpoint that answers whatever comes with its name; its port."""
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind((HOST, 0))

        def datagrams() -> None:
            while True:
                _, client = server.recvfrom(2048)
                server.sendto(name, client)

        def connections() -> None:
            while True:
                connection, _ = server.accept()
                with connection:
                    if connection.recv(2048):
                        connection.sendall(name)

        def serve() -> None:
            try:
                (datagrams if kind is socket.SOCK_DGRAM else connections)()
            except OSError:
                return  # closed: the test is over

        if kind is socket.SOCK_STREAM:
            server.listen()
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def served() -> Iterator[EngineProcess]:
    with ExitStack() as stack:
        one, two = (stack.enter_context(naming(name, socket.SOCK_STREAM)) for name in (b"one", b"two"))
        first, second = (stack.enter_context(naming(name, socket.SOCK_DGRAM)) for name in (b"first", b"second"))
        taken: set[int] = set()
        listeners: dict[str, dict[str, Any]] = {}
        for name in NAMES:
            taken.add(free_port(HOST, PORTS, frozenset(taken)))
            listeners[name] = {"port": max(taken), "address": HOST, "mode": "l4"}
        listeners["sni"]["tls"] = {"mode": "passthrough"}
        listeners["guarded"]["access"] = {"deny": ["127.0.0.2/32"]}
        listeners["udp"]["protocol"] = "udp"
        topology = {
            "version": 1,
            "name": "l4",
            "timeouts": {"idle": "0s"},
            "listeners": listeners,
            "pools": {
                "one": {"endpoints": [{"address": f"{HOST}:{one}"}]},
                "two": {"endpoints": [{"address": f"{HOST}:{two}"}]},
                "datagrams": {"endpoints": [{"address": f"{HOST}:{first}"}, {"address": f"{HOST}:{second}"}]},
            },
            "routes": [
                {"name": "exact", "listeners": ["sni"], "hosts": ["a.example"], "forward": "one"},
                {"name": "wild", "listeners": ["sni"], "hosts": ["*.example"], "forward": "two"},
                {"name": "near", "listeners": ["sources"], "sources": ["127.0.0.3/32"], "forward": "two"},
                {"name": "guarded", "listeners": ["guarded"], "forward": "one"},
                {"name": "udp", "listeners": ["udp"], "forward": "datagrams"},
            ],
        }
        with run_engine(ENGINE, lbgen.plan(lbgen.load(topology))) as handle:
            yield handle


def hello(name: str | None) -> bytes:
    """What a TLS client says first."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    client = context.wrap_bio(coming, going, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return going.read()


def answer(address: tuple[str, int], sent: bytes, client: str = HOST) -> bytes:
    with socket.create_connection(address, timeout=5, source_address=(client, 0)) as connection:
        connection.sendall(sent)
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("a.example", b"one"), ("b.example", b"two"), ("x.b.example", b"two"), ("a.test", b""), (None, b"")],
)
def test_the_server_name_chooses_and_an_unknown_one_is_closed(served, name, wanted):
    assert answer(served.address("sni"), hello(name)) == wanted


def test_what_is_not_tls_is_closed_where_names_choose(served):
    assert answer(served.address("sni"), b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n") == b""


def test_sources_choose_and_others_are_closed_not_answered(served):
    question = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert answer(served.address("sources"), question, "127.0.0.3") == b"two"
    assert answer(served.address("sources"), question) == b""
    assert answer(served.address("sources"), hello("a.example")) == b""


def test_who_is_denied_is_closed(served):
    assert answer(served.address("guarded"), b"x") == b"one"
    assert answer(served.address("guarded"), b"x", "127.0.0.2") == b""


def test_datagrams_of_a_client_stay_with_an_endpoint_and_clients_are_shared_out(served):
    seen = set()
    for _ in range(4):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(5)
            found = set()
            for _ in range(3):
                client.sendto(b"x", served.address("udp"))
                found.add(client.recv(100))
            assert len(found) == 1
            seen |= found
    assert seen == {b"first", b"second"}
