"""The real Envoy between a gRPC client and server, over h2c and TLS."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent import futures
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.conformance.prepare import plan_of
from lbgen.engines.envoy import ENGINE
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from tests.support.engine_lists import need_binary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

grpc = pytest.importorskip("grpc")
pytestmark = pytest.mark.engines


def as_it_is(message: bytes) -> bytes:
    return message


class Methods(grpc.GenericRpcHandler):  # type: ignore[misc,name-defined]
    def service(self, details: Any) -> Any:
        match details.method:
            case "/t.S/Echo":
                return grpc.unary_unary_rpc_method_handler(lambda message, _: message, as_it_is, as_it_is)
            case "/t.S/Stream":
                return grpc.stream_stream_rpc_method_handler(lambda each, _: iter(list(each)), as_it_is, as_it_is)
            case "/t.S/NotFound":
                return grpc.unary_unary_rpc_method_handler(
                    lambda _, call: call.abort(grpc.StatusCode.NOT_FOUND, "no"), as_it_is, as_it_is
                )
        return None


@pytest.fixture(params=[False, True], ids=["h2c", "tls"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Path]]:
    binary = need_binary(ENGINE.name)
    folder, tls = temporary_certificates(), request.param
    port = free_port("127.0.0.1")
    away = free_port("127.0.0.1", taken=frozenset((port,)))
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Methods(),))
    if tls:
        pair = ((folder / "shop.key").read_bytes(), (folder / "shop.crt").read_bytes())
        behind = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        behind = server.add_insecure_port("127.0.0.1:0")
    listener: dict[str, Any] = {"address": "127.0.0.1", "port": port, "http2": True}
    pool: dict[str, Any] = {"protocol": "grpc", "endpoints": [{"address": f"127.0.0.1:{behind}"}]}
    if tls:
        listener["tls"] = {"certificates": [{"cert": "shop.crt", "key": "shop.key"}]}
        pool["tls"] = {"ca": "ca.crt", "server_name": "shop.example"}
    plan = plan_of(
        {
            "version": 1,
            "name": "t",
            "listeners": {"web": listener},
            "pools": {"p": pool, "dead": {"protocol": "grpc", "endpoints": [{"address": f"127.0.0.1:{away}"}]}},
            "routes": [
                {"name": "dead", "match": [{"path": {"prefix": "/t.Dead"}}], "forward": "dead"},
                {"name": "r", "forward": "p"},
            ],
        }
    )
    with ExitStack() as stack:
        server.start()
        stack.callback(lambda: server.stop(None))
        log = stack.enter_context(run_engine(ENGINE, plan, binary, accept=("all",))).directory / "access.log"
        if tls:
            credentials = grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
            named = [("grpc.ssl_target_name_override", "shop.example")]
            yield stack.enter_context(grpc.secure_channel(f"127.0.0.1:{port}", credentials, named)), log
        else:
            yield stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}")), log


def status_of(channel: Any, method: str) -> str:
    try:
        channel.unary_unary(method, as_it_is, as_it_is)(b"", timeout=10)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def test_calls_come_back(served: tuple[Any, Path]) -> None:
    channel, log = served
    echo = channel.unary_unary("/t.S/Echo", as_it_is, as_it_is)
    for message in (b"", b"x", b"x" * 1_000_000):
        assert echo(message, timeout=10) == message
    stream = channel.stream_stream("/t.S/Stream", as_it_is, as_it_is)
    assert list(stream(iter([b"1", b"2", b"3"]), timeout=10)) == [b"1", b"2", b"3"]
    assert Counter(status_of(channel, "/t.S/NotFound") for _ in range(60)) == {"NOT_FOUND": 60}
    assert status_of(channel, "/t.S/Unknown") == "UNIMPLEMENTED"
    assert status_of(channel, "/t.Dead/x") == "UNAVAILABLE"
    end = time.monotonic() + 15
    while '"/t.Dead/x"' not in log.read_text(encoding="utf-8") and time.monotonic() < end:
        time.sleep(0.1)
    lines = log.read_text(encoding="utf-8").splitlines()
    (dead,) = (line for line in lines if json.loads(line)["path"] == "/t.Dead/x")
    record = ENGINE.access_record(dead)
    assert record is not None
    assert record["status"] == 503
