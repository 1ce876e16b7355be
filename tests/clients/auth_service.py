"""A service that is asked about requests, in a thread of the test: what it is asked, and answers that break rules.

Paths are /auth/ANSWER; `admit`, `deny` and `lead` are well-formed, the others fail in the way of their names.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USER = "ann"
PAD = 64 << 10  # bytes of fields, more than the buffer that any engine has for a head but Traefik
BODY = 10_000_000
DRIP_SECONDS = 12  # longer than the service has
_DRIPS = 120  # bytes
_HEAD = 65_536


@dataclass
class Question:
    """A request to the service; names of fields are in lower case."""

    method: str
    target: str
    fields: list[tuple[str, str]]

    def lines(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass
class AuthService:
    """`asked` are the questions so far."""

    port: int = 0
    asked: list[Question] = field(default_factory=list)

    def about(self, uri: str) -> list[Question]:
        """The questions about requests for `uri`."""
        return [each for each in self.asked if each.lines("x-forwarded-uri") == [uri]]

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await self._answer(await reader.readuntil(b"\r\n\r\n"), writer):
                pass
        writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may have another request."""
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        question = Question(method, target, fields)
        self.asked.append(question)
        name, _, size = target.partition("?")[0].removeprefix("/auth/").partition("/")
        answer: Callable[[asyncio.StreamWriter, Question, str], object] = getattr(self, f"_{name.replace('-', '_')}")
        done = answer(writer, question, size)
        if asyncio.iscoroutine(done):
            await done
            return False
        await writer.drain()
        return done is not False

    def _admit(self, writer: asyncio.StreamWriter, question: Question, _: str) -> None:
        digest = hashlib.sha256("; ".join(question.lines("cookie")).encode()).hexdigest()
        writer.write(message(204, ("X-User", USER), ("X-Cookies", digest)))

    def _deny(self, writer: asyncio.StreamWriter, _: Question, __: str) -> None:
        writer.write(message(401, ("WWW-Authenticate", 'Bearer realm="x"'), body=b"who are you?\n"))

    def _lead(self, writer: asyncio.StreamWriter, _: Question, __: str) -> None:
        writer.write(message(302, ("Location", "https://login.example/"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")))

    def _identity(self, writer: asyncio.StreamWriter, _: Question, size: str) -> None:
        writer.write(message(200, ("X-User", "u" * int(size))))

    def _long_head(self, writer: asyncio.StreamWriter, _: Question, status: str) -> None:
        pads = [(f"X-Pad-{number}", "p" * 4090) for number in range(PAD // 4096)]
        writer.write(message(int(status), *pads, ("X-User", USER)))

    def _long_body(self, writer: asyncio.StreamWriter, _: Question, status: str) -> None:
        writer.write(message(int(status), ("X-User", USER), body=b"b" * BODY))

    def _hints(self, writer: asyncio.StreamWriter, _: Question, status: str) -> None:
        """An interim answer before the answer."""
        writer.write(b"HTTP/1.1 103 Early Hints\r\nX-User: hint\r\n\r\n" + message(int(status), ("X-User", USER)))

    async def _drip_head(self, writer: asyncio.StreamWriter, _: Question, status: str) -> None:
        """A byte at a time, and never the end of the head."""
        await drip(writer, message(int(status), ("X-User", USER), ("X-Pad", "p" * _DRIPS))[:_DRIPS])

    async def _drip_body(self, writer: asyncio.StreamWriter, _: Question, status: str) -> None:
        whole = message(int(status), ("X-User", USER), body=b"b" * (2 * _DRIPS))
        writer.write(whole[: -2 * _DRIPS])
        await drip(writer, whole[-2 * _DRIPS : -_DRIPS])

    def _cut_head(self, writer: asyncio.StreamWriter, _: Question, status: str) -> bool:
        """Closes within the head, behind the status and the identity."""
        writer.write(message(int(status), ("X-User", USER)).removesuffix(b"\r\n"))
        return False

    def _cut_body(self, writer: asyncio.StreamWriter, _: Question, status: str) -> bool:
        writer.write(message(int(status), ("X-User", USER), body=b"b" * 1000)[:-900])
        return False

    def _cut(self, writer: asyncio.StreamWriter, _: Question, __: str) -> bool:
        """Closes without an answer."""
        return False


def message(status: int, *fields: tuple[str, str], body: bytes = b"") -> bytes:
    """An answer of HTTP/1.1."""
    length = () if status == 204 else (("Content-Length", str(len(body))),)
    lines = (f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in (*fields, *length)))
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    for number in range(len(data)):
        writer.write(data[number : number + 1])
        await writer.drain()
        await asyncio.sleep(DRIP_SECONDS / len(data))


@contextmanager
def auth_service() -> Iterator[AuthService]:
    """A service on a free port of 127.0.0.1, for as long as the block lasts."""
    service, loop, begun = AuthService(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(service.connection, "127.0.0.1", 0, limit=_HEAD)
        service.port = server.sockets[0].getsockname()[1]
        begun.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
