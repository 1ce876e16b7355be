"""Layer 4: who comes in and which endpoint answers. What is asked is HTTP, so that endpoints tell their names."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import Answer, ClientConnection, fetch
from lbgen.conformance.scripts.context import ScriptContext, account_field, behaving, get, wait_until
from lbgen.records import replace
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

# A connection of the probe that found the engine ready may come to its endpoint late; a client's comes each time.
_MORE_TRIES = 2


def l4_asked(ctx: ScriptContext) -> Iterator[str]:
    """For each client address the endpoint that answers, or "" for a connection that is closed without a byte and
    without a connection to an endpoint."""
    for client, name in ctx.params["clients"].items():
        answer, reached = _ask(ctx, client)
        for _ in range(_MORE_TRIES):
            if name or not reached:
                break
            _, again = _ask(ctx, client)
            reached &= again
        if not name and reached:
            yield f"{client}: a connection to {sorted(reached)}, expected none"
        if name and account_field(answer, "name") != name:
            yield f"{client}: {account_field(answer, 'name')}, expected {name}"
        elif not name and (answer.raw or answer.after == "open"):
            yield f"{client}: {answer.raw[:80]!r}, the connection is {answer.after}, expected closed without a byte"


def _ask(ctx: ScriptContext, client: str) -> tuple[Answer, set[str]]:
    """The answer to a client, and the endpoints that got a connection meanwhile and are not checked."""
    before = ctx.endpoints.connections.copy()
    answer = fetch(ctx.at[ctx.params["listener"]], replace(get("/"), client=client), timeout=3)
    return answer, (ctx.endpoints.connections - before).keys() - _checked_endpoints(ctx.plan)


def _checked_endpoints(plan: Plan) -> set[str]:
    """The endpoints that active checks connect to, each of which has a port of its own."""
    ports = {x.active.port or each.port for x in plan.pools if x.active is not None for each in x.endpoints}
    return {f"{x.name}-{n}" for x in plan.pools for n, each in enumerate(x.endpoints) if each.port in ports}


def l4_share(ctx: ScriptContext) -> Iterator[str]:
    """Connections of many clients go to just these endpoints."""
    address = ctx.at[ctx.params["listener"]]
    found = {account_field(fetch(address, replace(get("/"), client=f"127.0.9.{n}")), "name") for n in range(1, 31)}
    if found != set(ctx.params["names"]):
        yield f"30 clients were answered by {sorted(found)}, expected {ctx.params['names']}"


def l4_open_evenly(ctx: ScriptContext) -> Iterator[str]:
    """Of connections that stay open each endpoint has as many as the others."""
    address, names = ctx.at[ctx.params["listener"]], ctx.params["names"]
    held = []
    found: Counter[str] = Counter()
    try:
        for _ in range(4 * len(names)):
            held.append(ClientConnection(address))
            found[account_field(held[-1].ask(get("/")), "name")] += 1
    finally:
        for stream in held:
            stream.sock.close()
    if found != Counter(dict.fromkeys(names, 4)):
        yield f"{len(held)} open connections: {dict(found)}, expected 4 for each of {names}"


def l4_avoids_slow(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint that needs 400 ms more for each request gets less than half of an equal share of new connections,
    at the latest once an agent has begun to count them."""
    address, names = ctx.at[ctx.params["listener"]], ctx.params["names"]

    def ask_until(end: float) -> Counter[str]:
        found: Counter[str] = Counter()
        while time.monotonic() < end:
            found[account_field(fetch(address, get("/"), timeout=3), "name")] += 1
            time.sleep(0.05)
        return found

    counts: Counter[str] = Counter()

    def is_avoided() -> bool:
        counts.clear()
        for found in pool.map(ask_until, [time.monotonic() + 3] * 6):
            counts.update(found)
        return counts.keys() == set(names) and counts[names[0]] * 2 * len(names) < counts.total()

    with behaving(ctx, names[0], Behaviour("hang", wait_ms=400)), ThreadPoolExecutor(6) as pool:
        if not wait_until(is_avoided):
            yield f"of 6 clients' connections in 3 s: {dict(counts)}, {names[0]} is slow"


def connections_are_limited(ctx: ScriptContext) -> Iterator[str]:
    """While `most` connections are open no further one is served; once one of them has ended the next is."""
    address, most, path = (
        ctx.at[ctx.params["listener"]],
        ctx.params["most"],
        ctx.params.get("path", "/"),
    )
    time.sleep(0.5)  # those that found the listener open have ended
    held = [ClientConnection(address) for _ in range(most)]
    try:
        for number, stream in enumerate(held):
            if (status := stream.ask(get(path)).status) != 200:
                yield f"connection {number + 1} of {most}: {status}"
        answer = fetch(address, get(path), timeout=0.6)
        if answer.status == 200:
            yield f"connection {most + 1} is served while {most} are open"
        held.pop().sock.close()
        if not wait_until(lambda: fetch(address, get(path, ("Connection", "close")), timeout=0.6).status == 200):
            yield "one of them has ended and a new one is not served"
    finally:
        for stream in held:
            stream.sock.close()
