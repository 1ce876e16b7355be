"""Mirrors: a Lua function sends copies of requests to frontends of the same process, which lead to the pools."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, statement
from lbgen.engines.haproxy.timeouts import LONGEST
from lbgen.engines.haproxy.view import Mirror
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.plan.model import Forward, Listener, Plan

COPIED_BODY = 8192  # bytes of a body that a copy can have where its route does not buffer
_PARTS = 1_000_000
_LONGEST_NAME = 100  # of an abstract socket


def mirror_frontends(
    listener: Listener, forwards: Mapping[str, Forward], plan: Plan, backends: Backends
) -> list[Mirror]:
    """A frontend for each backend that gets copies of requests of this listener."""
    names = {
        backends.for_mirror(plan.pool(mirror.pool), action.timeouts): mirror.field
        for action in forwards.values()
        for mirror in action.mirrors
    }
    return [
        Mirror(Atom(f"mirror:{listener.name}:{name}"), Atom(field), Atom(_address(name, listener, plan)), Atom(name))
        for name, field in names.items()
    ]


def mirror_statements(
    listener: Listener, forwards: Mapping[str, Forward], plan: Plan, backends: Backends, per_route: PerRoute
) -> Iterator[Statement]:
    """Wait for small bodies, then send the copies."""
    if copied := [key for key, action in forwards.items() if action.mirrors]:
        is_small = acl(f"req.fhdr(content-length) -m int le {COPIED_BODY}")
        wait = statement(f"http-request wait-for-body time {LONGEST} at-least {COPIED_BODY}", when=[is_small])
        yield per_route.restrict(wait, copied, "mirrored")
    for key, action in forwards.items():
        for number, mirror in enumerate(action.mirrors, 1):
            part = round(mirror.percent * _PARTS / 100)
            divisor = gcd(part, _PARTS)
            when = [acl(f"rand({_PARTS // divisor}) lt {part // divisor}")] if part < _PARTS else []
            address = _address(backends.for_mirror(plan.pool(mirror.pool), action.timeouts), listener, plan)
            yield per_route.restrict(
                statement("http-request lua.mirror", address, when=when), [key], f"mirror.{key}.{number}"
            )


def _address(backend: str, listener: Listener, plan: Plan) -> str:
    """An abstract socket, which needs no file and no right to one; its name is this listener's on the whole host."""
    return f"abns@{backend}:{listener.port}:{plan.name}"[:_LONGEST_NAME]
