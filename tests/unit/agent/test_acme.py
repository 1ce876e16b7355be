"""Orders, their failures and limits, without an authority; and the server that answers challenges."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from lbgen.agent import acme, acme_state
from lbgen.agent.acme_client import AcmeClient, OrderError
from lbgen.agent.certificate_store import CertificateStore, Pair
from lbgen.agent.challenge_server import challenge_server, find_answer
from lbgen.engines.acme_spec import AcmeSpec, CertificateReload, OrderedCertificate
from lbgen.runtime.common.certificates import Spec, make, write_self_signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("shop.example", "www.shop.example")


def order(directory: str) -> OrderedCertificate:
    return OrderedCertificate("secure", NAMES, "tls/acme-secure.crt", "tls/acme-secure.crt.key", directory, None, None)


def keeper(
    folder: Path, directory: str = "http://127.0.0.1:9/", log: list[str] | None = None
) -> acme.CertificateKeeper:
    (folder / "engine" / "tls").mkdir(parents=True, exist_ok=True)
    (folder / "store").mkdir(exist_ok=True)
    spec = AcmeSpec("nginx", 0, (), (order(directory),), None, CertificateReload())
    said = log if log is not None else []
    return acme.CertificateKeeper(spec, folder / "engine", CertificateStore(folder / "store"), said.append)


@pytest.fixture
def limited() -> Iterator[str]:
    """An authority that takes nothing for an hour."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"newNonce": "%s/n", "newAccount": "%s/a", "newOrder": "%s/o"}'.replace(b"%s", url.encode())
            self._send(200, "application/json", body)

        def do_HEAD(self) -> None:
            self._send(200, "text/plain", b"")

        def do_POST(self) -> None:
            body = b'{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many new orders"}'
            self._send(429, "application/problem+json", body)

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Replay-Nonce", "bm9uY2U")
            if status == 429:
                self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"{url}/dir"
    server.shutdown()
    server.server_close()


def test_a_limit_of_the_authority_is_kept_to(limited, tmp_path):
    (tmp_path / "store").mkdir()
    with pytest.raises(OrderError, match="too many new orders") as found:
        AcmeClient(order(limited), CertificateStore(tmp_path / "store"), tmp_path).obtain()
    assert found.value.retry == pytest.approx(time.time() + 3600, abs=30)


def test_a_limit_outlives_the_agent(limited, tmp_path):
    first = keeper(tmp_path, limited)
    first.step()
    [state] = first.states.values()
    assert state.limited
    assert state.retry > time.time() + 3500
    first.store.release()
    log: list[str] = []
    keeper(tmp_path, limited, log).step()
    assert not any("orders" in line for line in log)


def test_failures_are_tried_again_ever_later(tmp_path, monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr(acme.time, "time", lambda: now)
    one = keeper(tmp_path)
    waits = []
    for _ in range(12):
        one.step()
        [state] = one.states.values()
        waits.append(state.retry - now)
        now = state.retry
    assert waits[:4] == [60, 120, 240, 480]
    assert waits[-1] == 6 * 3600
    assert state.failures == 12
    assert state.failure


def test_a_failed_order_takes_no_certificate_away(tmp_path):
    one = keeper(tmp_path)
    make(tmp_path, (Spec("old", NAMES, expired=True),))
    chain, key = (tmp_path / "old.crt").read_bytes(), (tmp_path / "old.key").read_bytes()
    one.store.put_pair("acme-secure.crt", chain, key)
    one.step()
    [state] = one.states.values()
    assert state.failures == 1
    assert "expired on" in state.describe(time.time())
    assert (tmp_path / "engine/tls/acme-secure.crt").read_bytes() == chain
    assert (tmp_path / "engine/tls/acme-secure.crt.key").stat().st_mode & 0o777 == 0o600
    assert acme_state.read(tmp_path / "engine") == (state,)


@pytest.mark.parametrize(("names", "due"), [(NAMES, False), (NAMES[:1], True)])
def test_another_name_is_a_reason_to_order(tmp_path, names, due):
    one = keeper(tmp_path)
    make(tmp_path, (Spec("there", names),))
    pair = Pair.of((tmp_path / "there.crt").read_bytes(), (tmp_path / "there.key").read_bytes())
    assert not pair.self_signed
    assert one._is_due(one.spec.certificates[0], pair) is due


def test_a_self_signed_certificate_is_replaced(tmp_path):
    one = keeper(tmp_path)
    write_self_signed(tmp_path / "a.crt", tmp_path / "a.key", NAMES)
    pair = Pair.of((tmp_path / "a.crt").read_bytes(), (tmp_path / "a.key").read_bytes())
    assert pair.self_signed
    assert one._is_due(one.spec.certificates[0], pair)


def test_a_certificate_with_the_key_of_another_is_none(tmp_path):
    make(tmp_path, (Spec("one", NAMES), Spec("other", NAMES)))
    store = CertificateStore(tmp_path)
    store.put_pair("mixed", (tmp_path / "one.crt").read_bytes(), (tmp_path / "other.key").read_bytes())
    assert store.pair("mixed") is None


def test_one_agent_of_several_orders(tmp_path):
    first, second = keeper(tmp_path), keeper(tmp_path)
    first.store.put_token("left", "by an agent that was killed")
    assert first.store.acquire()
    assert list(first.store.tokens.iterdir()) == []
    assert not second.store.acquire()
    first.store.release()
    assert second.store.acquire()


PREFIX = "/.well-known/acme-challenge/"


@pytest.mark.parametrize(
    "target",
    [
        "/",
        PREFIX,
        PREFIX + "../secret",
        PREFIX + "..",
        PREFIX + "%2e%2e%2fsecret",
        PREFIX + "deeper/token",
        PREFIX + "token.txt",
        PREFIX + "link",
        PREFIX + "deeper",
        PREFIX + "token%00",
        "//" + PREFIX + "token",
        "http://h" + PREFIX + "token",
    ],
)
def test_only_tokens_are_served(tmp_path, target):
    root = tmp_path / "root"
    (root / "deeper").mkdir(parents=True)
    for name in ("token", "token.txt", "deeper/token"):
        (root / name).write_text("yes")
    (tmp_path / "secret").write_text("no")
    (root / "link").symlink_to(tmp_path / "secret")
    assert find_answer(target, (root,)) is None
    assert find_answer(PREFIX + "token", (root,)) == b"yes"
    assert find_answer(PREFIX + "token?query", (tmp_path, root)) == b"yes"


def test_the_server_answers_on_a_kept_connection(tmp_path):
    (tmp_path / "abc").write_text("abc.thumb")
    server = challenge_server(0, (tmp_path,))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}{PREFIX}"
        with urllib.request.urlopen(url + "abc") as answer:
            assert answer.read() == b"abc.thumb"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "abd")
    finally:
        server.shutdown()
        server.server_close()


def test_a_line_says_how_long_a_certificate_lasts_and_when_it_is_renewed():
    now = time.time()
    state = acme_state.CertificateState("secure", NAMES, True, now + 89.5 * 86_400, now + 59.5 * 86_400)
    assert "is valid for 89 days, until " in state.describe(now)
    assert "; renewed from " in state.describe(now)
    assert "is valid for 1 day, until " in state.describe(now + 88 * 86_400)
    assert "renewed from" not in state.describe(now + 88 * 86_400)


def test_a_folder_that_cannot_be_read_is_logged(tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "store").mkdir()
    log: list[str] = []
    spec = AcmeSpec("nginx", 0, (), (), str(tmp_path / "none"), CertificateReload())
    one = acme.CertificateKeeper(spec, tmp_path / "engine", CertificateStore(tmp_path / "store"), log.append)
    asyncio.run(one._bind()).server_close()
    assert f"cannot read {tmp_path / 'none'}" in log[0]
