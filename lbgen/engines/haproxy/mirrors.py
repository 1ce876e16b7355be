"""Mirrors: a Lua function sends copies of requests to frontends of the same process, which lead to the pools."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from lbgen.engines.haproxy.statements import Block, Statement, acl, block, statement
from lbgen.engines.haproxy.timeouts import LONGEST
from lbgen.engines.haproxy.view import Contributor, HttpListener

COPIED_BODY = 8192  # bytes of a body that a copy can have where its route does not buffer
_PARTS = 1_000_000
_LONGEST_NAME = 100  # of an abstract socket


def mirror_frontends(on: HttpListener) -> Iterator[Block]:
    """A frontend for each backend that gets copies of requests of this listener."""
    names = {
        on.copies_to(on.plan.pool(mirror.pool), action.timeouts): mirror.field
        for action in on.forwards.values()
        for mirror in action.mirrors
    }
    for name, field in names.items():
        why = "copies of requests, which lbgen.lua sends"
        head = statement(f"frontend mirror:{on.listener.name}:{name}", origin=field, comment=why)
        lines = (f"bind {_address(name, on)}", f"default_backend {name}")
        yield block(head, "http", [statement(line, origin=field) for line in lines])


def _edits(on: HttpListener) -> Iterator[Statement]:
    """Wait for small bodies, then send the copies."""
    forwards, per_route = on.forwards, on.per_route
    if copied := [key for key, action in forwards.items() if action.mirrors]:
        is_small = acl(f"req.fhdr(content-length) -m int le {COPIED_BODY}")
        wait = statement(f"http-request wait-for-body time {LONGEST} at-least {COPIED_BODY}", when=[is_small])
        yield per_route.restrict(wait, copied, "mirrored")
    for key, action in forwards.items():
        for number, mirror in enumerate(action.mirrors, 1):
            part = round(mirror.percent * _PARTS / 100)
            divisor = gcd(part, _PARTS)
            when = [acl(f"rand({_PARTS // divisor}) lt {part // divisor}")] if part < _PARTS else []
            address = _address(on.copies_to(on.plan.pool(mirror.pool), action.timeouts), on)
            yield per_route.restrict(
                statement("http-request lua.mirror", address, when=when), [key], f"mirror.{key}.{number}"
            )


def _address(backend: str, on: HttpListener) -> str:
    """An abstract socket, which needs no file and no right to one; its name is this listener's on the whole host."""
    return f"abns@{backend}:{on.listener.port}:{on.plan.name}"[:_LONGEST_NAME]


MIRRORS = Contributor(edits=_edits)
