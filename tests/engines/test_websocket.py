"""A WebSocket library on both sides of each engine: messages of all sizes, pings, pieces, closes, over TLS too."""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import ExitStack, contextmanager

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.engines.api import Level
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.features import Feature
from lbgen.plan.overlay import with_admin
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from tests.support import minimal, websocket

FIRST = int(os.environ.get("LBGEN_CONFORMANCE_PORTS", "24800"))
pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]


def echo(connection) -> None:
    if connection.request.path.startswith("/close"):
        connection.close(4321, "as asked")
        return
    try:
        for message in connection:
            connection.send(message)
    except ConnectionClosed:
        pass  # the client left


def chosen(connection, offered):
    return "chat.v1" if "chat.v1" in offered else None


@contextmanager
def endpoint(port: int):
    with serve(echo, "127.0.0.1", port, select_subprotocol=chosen, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(
    scope="module", params=[(s, x) for s in engines_on_host() if s.engine in minimal.ENGINES for x in ("ws", "wss")]
)
def served(request):
    subject, scheme = request.param
    if subject.binary is None:
        pytest.skip(subject.gap)
    target = engine_by_name(subject.engine)
    if scheme == "wss" and target.verdict(Feature.TLS_TERMINATE, subject.version).level is Level.REFUSED:
        pytest.skip(f"{subject.label} refuses TLS")
    port = free_port("127.0.0.1", FIRST)
    admin = free_port("127.0.0.1", port + 1)
    behind = free_port("127.0.0.1", admin + 1)
    plan = minimal.topology(
        endpoint=behind, folder=temporary_certificates(), **{"plain" if scheme == "ws" else "secure": port}
    )
    with ExitStack() as stack:
        stack.enter_context(endpoint(behind))
        stack.enter_context(
            run_engine(
                subject.engine, with_admin(plan, admin), subject.binary, version=subject.version, accept=("all",)
            )
        )
        yield scheme, port


@contextmanager
def connected(served, path: str = "/", **given):
    scheme, port = served
    if scheme == "wss":
        given["ssl"] = ssl.create_default_context(cafile=temporary_certificates() / "ca.crt")
        given["server_hostname"] = "shop.example"
    with websocket.connected(f"{scheme}://127.0.0.1:{port}{path}", max_size=None, **given) as client:
        yield client


@pytest.mark.parametrize("compression", ["deflate", None])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 3_000_000])
def test_messages_come_back(served, size, compression) -> None:
    with connected(served, compression=compression) as client:
        for message in ("x" * size, os.urandom(size)):
            client.send(message)
            assert client.recv(timeout=20) == message


def test_many_small_ones_in_order(served) -> None:
    with connected(served) as client:
        for number in range(500):
            client.send(str(number))
        assert [client.recv(timeout=10) for _ in range(500)] == [str(n) for n in range(500)]


def test_pieces_pings_and_subprotocol(served) -> None:
    with connected(served, subprotocols=["chat.v1", "other"]) as client:
        assert client.connection.subprotocol == "chat.v1"
        client.send(["one ", "two ", "three"])
        assert client.recv(timeout=10) == "one two three"
        client.ping()


def test_closes_from_both_sides(served) -> None:
    with connected(served, "/close") as client, pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=10)
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "as asked")
    with connected(served) as client:
        client.close(4000, "enough")
        assert client.connection.protocol.close_rcvd.code == 4000


def test_a_client_that_vanishes_harms_none(served) -> None:
    with connected(served) as gone, connected(served) as stays:
        gone.vanish()
        stays.send("still here")
        assert stays.recv(timeout=10) == "still here"
