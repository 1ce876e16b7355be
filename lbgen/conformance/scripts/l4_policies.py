"""Layer 4: who comes in and which endpoint answers. What is asked is HTTP, so that endpoints tell their names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from lbgen.conformance.http1_client import ClientConnection, fetch
from lbgen.conformance.scripts.context import ScriptContext, account_field, get, wait_until


def l4_asked(ctx: ScriptContext) -> Iterator[str]:
    """For each client address the endpoint that answers, or "" for a connection that is closed without a byte and
    without a connection to an endpoint."""
    address = ctx.at[ctx.params["listener"]]
    for client, name in ctx.params["clients"].items():
        before = ctx.endpoints.connections.copy()
        answer = fetch(address, replace(get("/"), client=client), timeout=3)
        if not name and (reached := sorted(ctx.endpoints.connections - before)):
            yield f"{client}: a connection to {reached}, expected none"
        if name and account_field(answer, "name") != name:
            yield f"{client}: {account_field(answer, 'name')}, expected {name}"
        elif not name and (answer.raw or answer.after == "open"):
            yield f"{client}: {answer.raw[:80]!r}, the connection is {answer.after}, expected closed without a byte"


def l4_share(ctx: ScriptContext) -> Iterator[str]:
    """Connections of many clients go to just these endpoints."""
    address = ctx.at[ctx.params["listener"]]
    found = {account_field(fetch(address, replace(get("/"), client=f"127.0.9.{n}")), "name") for n in range(1, 31)}
    if found != set(ctx.params["names"]):
        yield f"30 clients were answered by {sorted(found)}, expected {ctx.params['names']}"


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
