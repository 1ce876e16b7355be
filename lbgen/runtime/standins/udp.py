"""The UDP side of a stand-in: it returns each datagram with the endpoint's name in front."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class DatagramServer(asyncio.DatagramProtocol):
    """Made by `open`; `seen` is called for each datagram."""

    def __init__(self, name: str, seen: Callable[[], None]) -> None:
        self._name = name.encode()
        self._seen = seen
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(cls, name: str, host: str, port: int, seen: Callable[[], None]) -> DatagramServer:
        """Bind and answer from now on; OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_datagram_endpoint(lambda: cls(name, seen), local_addr=(host, port))
        return made

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # what UDP has
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._seen()
        if self._transport is not None:
            self._transport.sendto(self._name + b": " + data, addr)

    async def close(self) -> None:
        """The port is free when this returns and the loop has turned once."""
        if self._transport is not None:
            self._transport.close()
            await asyncio.sleep(0)
