"""Clients on kept connections, and what they lost."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 4


@dataclass(slots=True)
class Traffic:
    """What clients on kept connections saw. A connection that the proxy closed between two requests, with a `FIN` seen
    before the next request was sent, is opened anew: nothing was lost. Anything else that fails is."""

    port: int
    pool: str = "app"
    pause: float = 0.002  # seconds between the requests of a client
    good: int = 0
    lost: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def client(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            if connection is None or _closed(connection):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/steady")
                answer = connection.getresponse()
                pool = json.loads(answer.read()).get("pool") if answer.status == 200 else None
                if pool == self.pool:
                    self.good += 1
                else:
                    self.lost.append(f"status {answer.status}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.lost.append(f"{type(error).__name__}: {error}")
                connection.close()
                connection = None
            time.sleep(self.pause)
        if connection is not None:
            connection.close()


def _closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the proxy has said that it will take no further request here."""
    if connection.sock is None:
        return True
    connection.sock.setblocking(False)
    try:
        return connection.sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        with suppress(OSError):
            connection.sock.settimeout(5)


@contextmanager
def traffic(port: int, pool: str = "app", pause: float = 0.002) -> Iterator[Traffic]:
    """Clients that ask without a pause for as long as the block lasts."""
    seen = Traffic(port, pool, pause)
    threads = [threading.Thread(target=seen.client) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        seen._stop.set()
        for each in threads:
            each.join()
