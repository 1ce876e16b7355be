"""`python -m tests.bench.keepalive_race`: requests that meet the moment at which an endpoint closes idle connections.

The endpoint closes a connection that was unused for 5 s, as Node, uvicorn and Apache do, and its FIN takes a while to
arrive, as over a network: what a proxy sends meanwhile is lost. Many clients ask at the same time, then again about
5 s later. With the default of `connections.keepalive_idle` no request may fail. Exit 0, or 4 when one does.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

import lbgen
from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.conformance.free_ports import FreePorts
from lbgen.runtime.local.process import run_engine

L7 = ("envoy", "haproxy", "nginx", "traefik")
CLOSES_AFTER = 5.0  # seconds for which the endpoint keeps an unused connection
FIN_TAKES = 0.03  # seconds until the proxy can see that it is closed
AROUND = 0.06  # seconds by which a client comes earlier or later
_WORKS = 0.05  # seconds for an answer, so that the requests of a burst have a connection each
_PATIENCE = 10.0
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(slots=True)
class Race:
    """What came of the requests on an engine. `lost` are those that arrived on a connection that was being closed."""

    engine: str
    asked: int = 0
    lost: int = 0
    failed: Counter[str] = field(default_factory=Counter)


def run(subject: EngineUnderTest, requests: int, clients: int, ports: tuple[int, int], idle: str | None = None) -> Race:
    """`requests` by so many clients at a time, on these `ports` of the proxy and the endpoint. `idle`: another
    `keepalive_idle` than the default."""
    port, endpoint = ports
    connections = {"keepalive": clients, **({} if idle is None else {"keepalive_idle": idle})}
    data: dict[str, Any] = {
        "version": 1,
        "name": "race",
        "access_log": "none",
        "listeners": {"web": {"port": port, "address": "127.0.0.1"}},
        "pools": {"app": {"endpoints": [{"address": f"127.0.0.1:{endpoint}"}], "connections": connections}},
        "routes": [{"name": "all", "forward": "app"}],
    }
    assert subject.binary is not None
    race = Race(subject.label)
    with run_engine(subject.engine, lbgen.plan(lbgen.load(data)), subject.binary, accept=("all",)):
        asyncio.run(_race(race, port, endpoint, requests, clients))
    return race


async def _race(race: Race, port: int, endpoint: int, requests: int, clients: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await _read_request(reader, writer, race):
                await asyncio.sleep(_WORKS)
                writer.write(_ANSWER)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", endpoint, backlog=2 * clients)
    bursts = max(2, -(-requests // clients))
    begin = asyncio.get_running_loop().time() + 1.0
    await asyncio.gather(*(_ask(race, port, begin, bursts, number) for number in range(clients)))
    server.close()


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, race: Race) -> bool:
    """Whether a request came while the connection was open."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CLOSES_AFTER)
    except TimeoutError:
        late = asyncio.ensure_future(reader.read(1))
        await asyncio.sleep(FIN_TAKES)
        if late.done() and late.result():
            race.lost += 1
            writer.transport.abort()  # a reset, as of a connection that is no more
        late.cancel()
        return False
    if head.startswith(b"POST"):
        await reader.readexactly(4)
    return True


async def _ask(race: Race, port: int, begin: float, bursts: int, number: int) -> None:
    """One client: a request in each burst, on a connection that is kept as long as the proxy keeps it."""
    now = asyncio.get_running_loop().time
    head = b"%b / HTTP/1.1\r\nHost: h\r\n" % (b"POST" if number % 2 else b"GET")
    request = head + (b"Content-Length: 4\r\n\r\nbody" if number % 2 else b"\r\n")
    reader = writer = None
    for burst in range(bursts):
        jitter = random.uniform(-AROUND, AROUND) if burst else 0  # no secret
        await asyncio.sleep(begin + burst * (CLOSES_AFTER + _WORKS) + jitter - now())
        race.asked += 1
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE)
            status = answer.split(b" ", 2)[1].decode()
            if status != "200":
                race.failed[status] += 1
                writer.close()
                reader = writer = None
            else:
                await _read_body(reader, answer)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
            race.failed[type(error).__name__] += 1
            reader = writer = None
    if writer is not None:
        writer.close()


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> None:
    """The endpoint's two bytes, in whichever framing the proxy passes them on."""
    end = b"0\r\n\r\n" if b"transfer-encoding" in head.lower() else b"ok"
    await asyncio.wait_for(reader.readuntil(end), _PATIENCE)


def main() -> int:
    """Run the drill on every engine of this host and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.keepalive_race", description=__doc__)
    parser.add_argument("-e", "--engine", action="append", choices=L7, help="default: all")
    parser.add_argument("-n", "--requests", type=int, default=10_000, help="for each engine (default: %(default)s)")
    parser.add_argument("-c", "--clients", type=int, default=250, help="at a time (default: %(default)s)")
    parser.add_argument("--idle", help="another keepalive_idle, such as 60s, to see what it prevents")
    asked = parser.parse_args()
    out, free = Console(), FreePorts()
    failed = 0
    for subject in engines_on_host(asked.engine or L7):
        if subject.binary is None:
            out.print(f"{subject.label}: {subject.gap}", highlight=False)
            continue
        race = run(subject, asked.requests, asked.clients, (free.take(), free.take()), asked.idle)
        said = ", ".join(f"{count} {what}" for what, count in race.failed.items()) or "0 failed"
        out.print(f"{race.engine}: {race.asked} requests, {race.lost} on a closing connection, {said}", highlight=False)
        failed += race.failed.total()
    return 4 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
