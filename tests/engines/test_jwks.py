"""Keys of tokens that Envoy reads from a URL: over HTTP and HTTPS, after a change, and while nobody answers there."""

from __future__ import annotations

import http.client
import ssl
import tempfile
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.engines.envoy import jwt, tls
from lbgen.runtime.common import certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.common.tokens import FOREIGN, ISSUER, public_keys, token
from lbgen.runtime.local.process import run_engine
from tests.support.engine_lists import need_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = pytest.mark.engines
KEPT = 1_000  # ms for which keys are used here
SECONDS = 20


class Issuer:
    """A server of keys; `keys` is what it answers, `asked` the targets and hosts that it was asked for."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.keys, self.status, self.asked = public_keys(), 200, list[tuple[str, str]]()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append((self.path, self.headers["Host"]))
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(issuer.keys)))
                self.end_headers()
                self.wfile.write(issuer.keys.encode())

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Issuer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextmanager
def serving(url: str) -> Iterator[EngineProcess]:
    """Envoy with a route for tokens whose keys are at `url`; the route answers by itself."""
    binary = need_binary("envoy")
    given: dict[str, Any] = {
        "version": 1,
        "name": "jwks",
        "listeners": {"web": {"port": free_port("127.0.0.1", 25_400), "address": "127.0.0.1"}},
        "routes": [
            {
                "name": "tokens",
                "respond": {"status": 200, "body": "in"},
                "auth": {"jwt": {"issuer": ISSUER, "audience": ["shop"], "jwks": url}},
            }
        ],
    }
    with run_engine("envoy", lbgen.plan(lbgen.load(given)), binary, accept=("all",)) as handle:
        yield handle


def status(handle: EngineProcess, made: str = "ES256") -> int:
    connection = http.client.HTTPConnection(*handle.address("web"), timeout=10)
    connection.request("GET", "/", headers={"Authorization": f"Bearer {token(made=made)}"})
    with connection.getresponse() as answer:
        return answer.status


def wait_for(handle: EngineProcess, wanted: int, made: str = "ES256") -> None:
    end = time.monotonic() + SECONDS
    while (got := status(handle, made)) != wanted:
        assert time.monotonic() < end, got
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt, "_KEPT", KEPT)


def secured(folder: Path, *, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """TLS of a server for localhost, whose authority Envoy takes for one of the system, or not."""
    for each in (folder, *folder.parents):  # Envoy may run as another user
        if each == Path(tempfile.gettempdir()):
            break
        each.chmod(0o755)
    certificates.make(folder, (certificates.Spec("local", ("localhost",)),))
    if trusted:
        monkeypatch.setattr(tls, "_SYSTEM", {"filename": str(folder / "ca.crt")})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "local.crt", folder / "local.key")
    return context


def test_keys_are_read_and_read_again() -> None:
    port = free_port("127.0.0.1", 25_410)
    with Issuer(port) as issuer, serving(f"http://127.0.0.1:{port}/keys?of=shop") as handle:
        assert (status(handle), status(handle, "foreign"), status(handle, "unsigned")) == (200, 401, 401)
        assert set(issuer.asked) == {("/keys?of=shop", f"127.0.0.1:{port}")}
        issuer.keys = public_keys(FOREIGN)
        wait_for(handle, 200, "foreign")
        wait_for(handle, 401)


def test_nobody_is_let_in_before_there_are_keys() -> None:
    port = free_port("127.0.0.1", 25_410)
    with serving(f"http://127.0.0.1:{port}/keys") as handle:
        assert (status(handle), status(handle, "none")) == (401, 401)
        with Issuer(port):
            wait_for(handle, 200)


def test_keys_stay_while_nobody_answers() -> None:
    port = free_port("127.0.0.1", 25_410)
    with Issuer(port) as issuer, serving(f"http://127.0.0.1:{port}/keys") as handle:
        assert status(handle) == 200
        issuer.status = 500
        time.sleep(3 * KEPT / 1000)
        assert len(issuer.asked) > 1
        assert (status(handle), status(handle, "foreign")) == (200, 401)


@pytest.mark.parametrize("trusted", [True, False])
def test_keys_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool) -> None:
    port, context = free_port("127.0.0.1", 25_410), secured(tmp_path, trusted=trusted, monkeypatch=monkeypatch)
    with Issuer(port, context) as issuer, serving(f"https://localhost:{port}/keys") as handle:
        if trusted:
            wait_for(handle, 200)
            assert issuer.asked[0] == ("/keys", f"localhost:{port}")
        else:
            time.sleep(3 * KEPT / 1000)
            assert status(handle) == 401
            assert issuer.asked == []
