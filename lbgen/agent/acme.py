"""Keeps certificates from ACME authorities: orders and renews them, has the engine load them, and answers challenges.

Certificates live in a folder that outlives engines and stacks (`certificate_store`). Where several agents share it, one
places the orders, all answer challenges, and each gives its engine what is there.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.agent import acme_state
from lbgen.agent.acme_client import AcmeClient
from lbgen.agent.acme_state import CertificateState
from lbgen.agent.certificate_store import CertificateStore, Pair, put
from lbgen.agent.challenge_server import challenge_server
from lbgen.agent.steering import signal_engine
from lbgen.engines.acme_spec import AcmeSpec, OrderedCertificate
from lbgen.plan.acme import CHALLENGE_PATH

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

FIRST_SECONDS, MOST_SECONDS = 60.0, 6 * 3600.0  # between two orders of a certificate after failures; it doubles
_LOOK_SECONDS = 5.0  # for what another agent has put into the store
_BIND_SECONDS = 0.5  # between two attempts to bind
_READY_SECONDS = 15.0  # for the engine to lead challenges to the server, before the first order
_PROBE = "lbgen-ready"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # where a listener on all addresses is asked


def import_modules() -> None:
    """Import what is only needed for orders, before the process drops its privileges."""
    from cryptography import x509  # noqa: F401
    from cryptography.hazmat.primitives import serialization  # noqa: F401

    import lbgen.agent.acme_client  # noqa: F401


class CertificateKeeper:
    """`folder` has the engine's files, `store` outlives it."""

    def __init__(self, spec: AcmeSpec, folder: Path, store: CertificateStore, log: Callable[[str], None]) -> None:
        self.spec = spec
        self.folder = folder
        self.store = store
        self.log = log
        before, self._unloaded = acme_state.read_file(folder)
        before += acme_state.read(store.folder)
        self.states = {each.name: _resumed(each, before) for each in spec.certificates}
        self._clients: dict[str, AcmeClient] = {}
        self._asked: dict[str, tuple[bytes, float, float | None]] = {}  # chain, when to ask again, its renewal
        self._shown: object = None
        self._ready = False
        self._ended = threading.Event()

    async def run(self) -> None:
        """Run until cancelled. Raises OSError when the files cannot be written."""
        loop, failed = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def work() -> None:
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - it is raised in the task
                if not self._ended.is_set():
                    loop.call_soon_threadsafe(failed.set_exception, error)

        server = await self._bind()
        threads = [threading.Thread(target=work, daemon=True)]
        threads.append(threading.Thread(target=server.serve_forever, daemon=True))
        for each in threads:
            each.start()
        try:
            await failed
        finally:
            self._ended.set()
            server.shutdown()
            server.server_close()

    async def _bind(self) -> ThreadingHTTPServer:
        """The server; an agent before may hold its port for a while."""
        folders = (self.store.tokens, *(() if self.spec.webroot is None else (Path(self.spec.webroot),)))
        if self.spec.webroot is not None and not os.access(self.spec.webroot, os.R_OK | os.X_OK):
            self.log(f"user {os.getuid()} cannot read {self.spec.webroot}: its challenges are answered with 404")
        failure = ""
        while True:
            try:
                return challenge_server(self.spec.port, folders)
            except OSError as error:
                if str(error) != failure:
                    self.log(f"challenges cannot be answered on port {self.spec.port}: {error}")
                failure = str(error)
            await asyncio.sleep(_BIND_SECONDS)

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._ended.wait(self.step())
        finally:
            self.store.release()

    def step(self) -> float:
        """Order what is due, and give the engine what is new; returns in how many seconds to do so again."""
        leads = bool(self.spec.certificates) and self.store.acquire()
        for order in self.spec.certificates:
            pair = self.store.pair(order_file(order))
            if leads and self._is_due(order, pair):
                pair = self._order(order) or pair
            self._note(order, pair)
            if pair is not None:
                self._install(order, pair)
        self._load()
        self._write_state()
        if leads:
            acme_state.write(self.store.folder, tuple(self.states.values()))
        now = time.time()
        if not leads or self._unloaded:
            return _LOOK_SECONDS
        due = [max(state.renewal, state.retry) for state in self.states.values()]
        asked = [again for _, again, _ in self._asked.values()]
        return min(acme_state.BEAT_SECONDS, max(0.5, min((*due, *asked)) - now))

    def _is_due(self, order: OrderedCertificate, pair: Pair | None) -> bool:
        now = time.time()
        if now < self.states[order.name].retry:
            return False
        return self._renewal(order, pair) <= now

    def _renewal(self, order: OrderedCertificate, pair: Pair | None) -> float:
        """When to order: now without a certificate of an authority for all names, else after two thirds of its life, or
        when the authority says, as it does of one that is revoked."""
        if pair is None or pair.self_signed or not pair.names.issuperset(order.domains):
            return 0.0
        chain, again, renewal = self._asked.get(order.name, (b"", 0.0, None))
        if chain != pair.chain or again <= time.time():
            renewal, again = self._ask(order, pair)
            self._asked[order.name] = (pair.chain, again, renewal)
        return pair.renewal if renewal is None else min(pair.renewal, renewal)

    def _ask(self, order: OrderedCertificate, pair: Pair) -> tuple[float | None, float]:
        from lbgen.agent.acme_client import OrderError

        try:
            return self._client(order).renewal_time(pair.chain)
        except OrderError:
            return None, time.time() + FIRST_SECONDS  # what the certificate says suffices

    def _order(self, order: OrderedCertificate) -> Pair | None:
        """A new certificate, in the store; None where the order failed, which the state then says."""
        from lbgen.agent.acme_client import OrderError

        self._wait_ready()
        state = self.states[order.name]
        self.log(f"orders a certificate for {', '.join(order.domains)} from {order.directory}")
        try:
            chain, key = self._client(order).obtain()
            pair = Pair.of(chain, key)
        except (OrderError, ValueError) as error:
            failures = state.failures + 1
            retry = time.time() + min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** (failures - 1))
            said = error.retry if isinstance(error, OrderError) else None
            limited = said is not None and said > retry
            retry = said if said is not None and limited else retry
            self.log(f"the order failed: {error}; next try in {retry - time.time():.0f} s")
            self.states[order.name] = replace(
                state, failures=failures, failure=str(error), retry=retry, limited=limited
            )
            return None
        self.store.put_pair(order_file(order), chain, key)
        self.states[order.name] = replace(state, failures=0, failure="", retry=0, limited=False)
        self.log(f"the certificate for {', '.join(order.domains)} is there")
        return pair

    def _client(self, order: OrderedCertificate) -> AcmeClient:
        from lbgen.agent.acme_client import AcmeClient

        if order.name not in self._clients:
            self._clients[order.name] = AcmeClient(order, self.store, self.folder)
        return self._clients[order.name]

    def _note(self, order: OrderedCertificate, pair: Pair | None) -> None:
        issued = pair is not None and not pair.self_signed
        self.states[order.name] = replace(
            self.states[order.name],
            issued=issued,
            expires=pair.expires if pair is not None and issued else 0,
            renewal=self._renewal(order, pair),
        )

    def _install(self, order: OrderedCertificate, pair: Pair) -> None:
        """Put the certificate into the engine's folder, where it is another one."""
        cert, key = self.folder / order.cert, self.folder / order.key
        if _content(cert) == pair.chain and _content(key) == pair.key:
            return
        if not self._unloaded:
            self._unloaded = True
            self._write_state()  # so that an agent that starts after a crash has it loaded
        put(key, pair.key, secret=True)
        put(cert, pair.chain)

    def _load(self) -> None:
        """Have the engine load what was put in its place."""
        if not self._unloaded:
            return
        reload = self.spec.reload
        failure = ""
        if reload.signal:
            failure = signal_engine(reload.program, reload.pid_file, reload.signal, self.folder)
        for name in reload.rewritten:
            content = _content(self.folder / name)
            if content is not None:
                put(self.folder / name, content)
        self._unloaded = bool(failure)
        self.log(f"the engine has not loaded them: {failure}" if failure else "the engine loads the certificates")

    def _wait_ready(self) -> None:
        """Wait until each listener leads challenges here, as a failed order counts at the authority. What keeps this
        host away, such as an access list, need not keep the authority away: the order is then placed all the same."""
        if self._ready:
            return
        self.store.put_token(_PROBE, _PROBE)
        end = time.monotonic() + _READY_SECONDS
        while not self._ended.is_set() and time.monotonic() < end and not all(starmap(_answers, self.spec.listeners)):
            self._ended.wait(0.1)
        self.store.remove_token(_PROBE)
        self._ready = True

    def _write_state(self) -> None:
        states = tuple(self.states.values())
        if (states, self._unloaded) != self._shown:
            acme_state.write(self.folder, states, unloaded=self._unloaded)
            self._shown = (states, self._unloaded)


def order_file(order: OrderedCertificate) -> str:
    """The name of the certificate in the store."""
    return Path(order.cert).name


def _resumed(order: OrderedCertificate, before: tuple[CertificateState, ...]) -> CertificateState:
    """The state to begin with: what the authority limited stays limited; other orders are tried at once."""
    for each in before:
        if (each.name, each.domains) == (order.name, order.domains) and each.limited:
            return each
    return CertificateState(order.name, order.domains)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _answers(address: str, port: int) -> bool:
    connection = HTTPConnection(_LOOPBACK.get(address, address), port, timeout=2)
    try:
        connection.request("GET", f"{CHALLENGE_PATH}/{_PROBE}")
        return connection.getresponse().read() == _PROBE.encode()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
