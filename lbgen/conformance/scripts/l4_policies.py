"""Layer 4: who comes in and which endpoint answers. What is asked is HTTP, so that endpoints tell their names."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.conformance.probe import Stream, ask, wire
from lbgen.conformance.scripts.stage import answers, eventually, get, ill, told_of, well

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage

CLOSED = "None"  # what `answers` counts when a connection ends without an answer


def l4_asked(stage: Stage) -> Iterator[str]:
    """For each client address the endpoint that answers, or "" for a connection that is closed without a byte."""
    address = stage.at[stage.params["listener"]]
    for client, name in stage.params["clients"].items():
        answer = ask(address, replace(get("/"), client=client), timeout=3)
        if name and told_of(answer, "name") != name:
            yield f"{client}: {told_of(answer, 'name')}, expected {name}"
        elif not name and (answer.raw or answer.after == "open"):
            yield f"{client}: {answer.raw[:80]!r}, the connection is {answer.after}, expected closed without a byte"


def l4_share(stage: Stage) -> Iterator[str]:
    """Connections of many clients go to just these endpoints."""
    address = stage.at[stage.params["listener"]]
    found = {told_of(ask(address, replace(get("/"), client=f"127.0.9.{n}")), "name") for n in range(1, 31)}
    if found != set(stage.params["names"]):
        yield f"30 clients were answered by {sorted(found)}, expected {stage.params['names']}"


def l4_all_out(stage: Stage) -> Iterator[str]:
    """With every endpoint out a connection is closed and reaches none."""
    pool = stage.params["pool"]
    names, target = (f"{pool}-0", f"{pool}-1"), f"/{pool}"
    for name in names:
        ill(stage, name, "check 500")
    try:
        if not eventually(lambda: answers(stage, target, 3) == {CLOSED: 3}):
            yield f"all checks fail, answers {dict(answers(stage, target, 6))}, expected closed connections"
    finally:
        for name in names:
            well(stage, name)
    if not eventually(lambda: set(answers(stage, target, 4)) == set(names)):
        yield f"all are well again: {dict(answers(stage, target, 6))}"


def l4_ejected(stage: Stage) -> Iterator[str]:
    """Two failed connections in a row eject an endpoint for 1500 ms; then it gets some again."""
    pool, how = stage.params["pool"], stage.params["how"]
    sick, sound, target = f"{pool}-0", f"{pool}-1", f"/{pool}"
    if not eventually(lambda: answers(stage, target, 4)[sick] > 0):
        yield f"{sick} gets no connection at the start"
        return
    ill(stage, sick, how)
    try:
        failed = 0
        for _ in range(12):
            failed += answers(stage, target, 1)[CLOSED]
            if failed == 2:
                break
        begun = time.monotonic()
        found = answers(stage, target, 8)
        if time.monotonic() - begun < 1.2 and found != {sound: 8}:
            yield f"{how}: after {failed} failures {dict(found)}, expected all from {sound}"
    finally:
        well(stage, sick)
    if not eventually(lambda: answers(stage, target, 4)[sick] > 0):
        yield f"{how}: {sick} is well and its time is over, and it gets no connection"


def connections_are_limited(stage: Stage) -> Iterator[str]:
    """While `most` connections are open no further one is served; once one of them has ended the next is."""
    address, most, path = stage.at[stage.params["listener"]], stage.params["most"], stage.params.get("path", "/")
    time.sleep(0.5)  # those that found the listener open have ended
    held = [Stream(address) for _ in range(most)]
    try:
        for number, stream in enumerate(held):
            stream.send(wire(get(path)))
            if (status := stream.answer().status) != 200:
                yield f"connection {number + 1} of {most}: {status}"
        answer = ask(address, get(path), timeout=0.6)
        if answer.status == 200:
            yield f"connection {most + 1} is served while {most} are open"
        held.pop().sock.close()
        if not eventually(lambda: ask(address, get(path, ("Connection", "close")), timeout=0.6).status == 200):
            yield "one of them has ended and a new one is not served"
    finally:
        for stream in held:
            stream.sock.close()
