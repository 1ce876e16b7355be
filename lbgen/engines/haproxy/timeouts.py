"""Timeouts of a route. HAProxy has one timer for an endpoint that is silent, before its response and in a body; from
3.0 on a rule can set it anew once the head has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import version_key
from lbgen.engines.haproxy.statements import Statement, batches, is_one_of, statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Timeouts

LONGEST = "24d"  # HAProxy's longest time


def duration(milliseconds: int) -> str:
    """A time as HAProxy writes it; 0 = no limit."""
    if not milliseconds:
        return LONGEST
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def sets_time_of_bodies(version: str) -> bool:
    """Whether this version can change the timer between a response head and its body."""
    return version_key(version) >= (3, 0)


def server_timeout(times: Timeouts, version: str) -> int:
    """Milliseconds of `timeout server`: the longer time where it has to do for head and body; 0 = no limit."""
    if sets_time_of_bodies(version):
        return times.response
    return 0 if 0 in (times.response, times.idle) else max(times.response, times.idle)


def body_statements(origin: str, times: Timeouts, version: str, keys: list[str]) -> Iterator[Statement]:
    """Set the time for a silent body; `keys` are those of the routes, none = of all."""
    if sets_time_of_bodies(version) and times.response != times.idle:
        set_time = statement(f"http-response set-timeout server {duration(times.idle)}", origin=origin)
        yield from (
            [set_time.extend(acls=[is_one_of("txn.route", some)], origin=origin) for some in batches(keys)]
            or [set_time]
        )


def backend_statements(origin: str, times: Timeouts, version: str, keys: list[str]) -> Iterator[Statement]:
    """Statements of a backend whose own times do not apply to the routes `keys`."""
    for some in batches(keys):
        for side, time in (("server", server_timeout(times, version)), ("tunnel", times.idle)):
            when = [is_one_of("txn.route", some)]
            yield statement(f"http-request set-timeout {side} {duration(time)}", when=when, origin=origin)
    yield from body_statements(origin, times, version, keys)


def shortest(*milliseconds: int) -> int:
    """The shortest of several times; 0 = no limit."""
    return min(filter(None, milliseconds), default=0)


def shown(milliseconds: int) -> str:
    """A time for people."""
    return f"{milliseconds / 1000:g} s" if milliseconds else "any time"
