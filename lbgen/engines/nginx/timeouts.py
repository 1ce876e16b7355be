"""Timeouts in nginx's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import NONE, ClientTimes, Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from lbgen.plan.model import ClientTimeouts, Timeouts

_NO_LIMIT = "365d"


def duration(milliseconds: int) -> Atom:
    """Milliseconds in nginx's notation; 0 = no limit, written as a year since nginx has no such value."""
    if milliseconds == 0:
        return Atom(_NO_LIMIT)
    return Atom(f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms")


def proxy_times(timeouts: Timeouts) -> Times:
    """nginx has one read timeout for head and body of a response: the response timeout applies."""
    return Times(duration(timeouts.connect), duration(timeouts.response), duration(timeouts.idle))


def client_times(timeouts: ClientTimeouts) -> ClientTimes:
    return ClientTimes(duration(timeouts.header), duration(timeouts.body), duration(timeouts.keepalive))


def own_times(times: Times, inherited: Times) -> Times | None:
    """The times that are not inherited; None when all are."""
    if times == inherited:
        return None
    return Times(
        NONE if times.connect == inherited.connect else times.connect,
        NONE if times.read == inherited.read else times.read,
        NONE if times.send == inherited.send else times.send,
    )


def own_client_times(times: ClientTimes, inherited: ClientTimes) -> ClientTimes | None:
    """The same of a client's times."""
    if times == inherited:
        return None
    return ClientTimes(
        NONE if times.head == inherited.head else times.head,
        NONE if times.body == inherited.body else times.body,
        NONE if times.keepalive == inherited.keepalive else times.keepalive,
    )
