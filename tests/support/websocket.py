"""WebSockets for tests: an endpoint of HTTP/2, and a client. In the client one thread does all of a connection, as no
two may use one TLS connection (Python 3.11 locks nothing there, and a handshake hung now and then)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events
import h2.settings
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Coroutine, Iterator

    from websockets.asyncio.client import ClientConnection

SECONDS = 20.0


class Client:
    """What tests do with a connection, each call until it is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: ClientConnection) -> None:
        self._loop = loop
        self.connection = connection

    def _do(self, what: Coroutine[Any, Any, Any], seconds: float = SECONDS) -> Any:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(what, seconds), self._loop).result()

    def send(self, message: Any) -> None:
        self._do(self.connection.send(message))

    def recv(self, timeout: float = SECONDS) -> Any:
        return self._do(self.connection.recv(), timeout)

    def ping(self) -> None:
        """Until its pong is there."""

        async def there_and_back() -> None:
            pong: Awaitable[float] = await self.connection.ping()
            await pong

        self._do(there_and_back())

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._do(self.connection.close(code, reason))

    def vanish(self) -> None:
        """Without a word: the socket is closed."""
        self._loop.call_soon_threadsafe(self.connection.transport.abort)


@contextmanager
def connected(url: str, **given: Any) -> Iterator[Client]:
    """A connection to `url`, closed at the end; `given` is for the library."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        async def opened() -> ClientConnection:
            return await connect(url, open_timeout=10, **given)

        client = Client(loop, asyncio.run_coroutine_threadsafe(opened(), loop).result())
        try:
            yield client
        finally:
            client.close()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def serve_extended_connect(server: socket.socket, seen: list[dict[str, str]]) -> None:
    """Accept WebSockets over HTTP/2 (RFC 8441)."""
    connection, _ = server.accept()
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    offered = {h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}
    state.local_settings = h2.settings.Settings(client=False, initial_values=offered)
    state.initiate_connection()
    with connection, suppress(OSError):
        connection.sendall(state.data_to_send())
        while data := connection.recv(65_536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    seen.append(dict(event.headers))
                    state.send_headers(event.stream_id, [(":status", "200")])
            connection.sendall(state.data_to_send())
