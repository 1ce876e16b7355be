"""Answers that nginx makes by itself: with lbgen's texts, or as nginx makes them where they are left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.strings import EMPTY
from lbgen.records import replace

ADDRESS_STATUSES = frozenset({301, 302, 303, 307, 308})  # for which `return` takes an address, not a text

if TYPE_CHECKING:
    from lbgen.engines.nginx.view import Check, Guard, Location


def with_own_pages(location: Location) -> Location:
    """`location` without the texts and headers of lbgen in nginx's own answers."""
    proxy, to, reader = location.proxy, location.redirect_to, location.body_reader
    return replace(
        location,
        error_pages=False,
        guard=None if location.guard is None else _plain_guard(location.guard),
        proxy=None if proxy is None else replace(proxy, failure_to=None, may_lack_endpoints=False),
        redirect_to=None if to is None else replace(to, failure_to=None),
        body_reader=None if reader is None else replace(reader, failure_to=None),
    )


def plain_checks(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Checks that answer with a status alone."""
    return tuple(replace(each, text=EMPTY) for each in checks)


def _plain_guard(guard: Guard) -> Guard:
    return replace(guard, checks=plain_checks(guard.checks))


def may_have_extension(location: Location) -> bool:
    """Whether the location answers with a text of the topology on a path that may end like a file's name."""
    answer = location.answer
    exact = location.path is not None and location.below is None and "." not in location.path.text
    return answer is not None and answer.text is not None and answer.status not in ADDRESS_STATUSES and not exact


def continues_elsewhere(location: Location) -> bool:
    """Whether an error page leads from the location to another one."""
    proxy = location.proxy
    if location.redirect_to is not None or location.body_reader is not None:
        return True
    jumps = () if proxy is None else (proxy.next_try, proxy.tunnel_to, proxy.failure_to, proxy.filtered)
    return any(each is not None for each in jumps)
