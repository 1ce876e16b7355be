"""Traefik between a gRPC client and server: every call ends with the status that the server gave it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.engines.traefik import ENGINE
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

grpc = pytest.importorskip("grpc", reason="no grpcio here: no gRPC client calls through Traefik")
pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
HOST = "127.0.0.1"


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Methods: `Missing` ends NOT_FOUND, `Three` answers three messages, `Echo` the message that came."""

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if name == "Missing":
            return grpc.unary_unary_rpc_method_handler(
                lambda _, context: context.abort(grpc.StatusCode.NOT_FOUND, name)
            )
        if name == "Three":
            return grpc.unary_stream_rpc_method_handler(lambda message, _: iter([message] * 3))
        return grpc.unary_unary_rpc_method_handler(lambda message, _: message) if name == "Echo" else None


@pytest.fixture(scope="module")
def channel() -> Iterator[Any]:
    server = grpc.server(ThreadPoolExecutor(4), handlers=[_Handlers()])
    endpoint = server.add_insecure_port(f"{HOST}:0")
    port = free_port(HOST, 23_800)
    topology = {
        "version": 1,
        "name": "calls",
        "listeners": {"web": {"port": port, "address": HOST, "http2": True}},
        "pools": {"p": {"endpoints": [{"address": f"{HOST}:{endpoint}"}], "protocol": "grpc"}},
        "routes": [{"name": "all", "forward": "p"}],
    }
    server.start()
    try:
        with (
            run_engine(ENGINE, lbgen.plan(lbgen.load(topology))),
            grpc.insecure_channel(f"{HOST}:{port}") as found,
        ):
            yield found
    finally:
        server.stop(None)


def test_calls_end_with_the_status_of_the_server(channel):
    statuses: Counter[Any] = Counter()
    for _ in range(60):
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/s/Missing")(b"x", timeout=5)
        statuses[raised.value.code()] += 1
    assert statuses == {grpc.StatusCode.NOT_FOUND: 60}
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/s/Unknown")(b"x", timeout=5)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_messages_and_streams_arrive(channel):
    assert channel.unary_unary("/s/Echo")(b"x" * 100_000, timeout=5) == b"x" * 100_000
    assert list(channel.unary_stream("/s/Three")(b"y", timeout=5)) == [b"y"] * 3
