"""Files for bodies that several locations have, so that each is written once: those of an exact location and its
prefix, and those of the named locations that nginx wants in every server block."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import NONE, Answer, Location
from lbgen.engines.text import Atom, Literal
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.view import Header, Proxy, Server

_FOLDER, _COMMON_FOLDER = "routes", "hosts"
_WORTH_A_FILE = 3  # locations that servers have in common
Shared = tuple[Atom, tuple[Location, ...]]
"""A file and its locations."""
_SHORT = 3  # directives that a location of one line holds
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9._]+")


def share_bodies(servers: Iterable[Server]) -> tuple[tuple[Server, ...], tuple[Location, ...]]:
    """The servers with includes in place of bodies that are long and used again, and those bodies."""
    every = tuple(servers)
    uses: Counter[Location] = Counter()
    for server in every:
        for location in (*server.locations, *server.named):
            if _directives(location) > _SHORT:
                uses[_body(location)] += sum(x is not None for x in (location.path, location.below, location.name))
    files: dict[Location, Location] = {}
    names: set[str] = set()

    def shared(location: Location) -> Location:
        if _directives(location) <= _SHORT or uses[body := _body(location)] < 2:
            return location
        if body not in files:
            name = _NOT_IN_A_NAME.sub("-", (location.name or location.route).text).strip("-")
            free = next(x for x in chain((name,), (f"{name}-{n}" for n in count(2))) if x not in names)
            names.add(free)
            file = Atom(f"{_FOLDER}/{free}.conf")
            files[body] = replace(body, origin=location.origin, include=file)
        return replace(location, include=files[body].include)

    out = tuple(replace(x, locations=tuple(map(shared, x.locations)), named=tuple(map(shared, x.named))) for x in every)
    return out, tuple(files.values())


def share_locations(servers: Iterable[Server]) -> tuple[tuple[Server, ...], tuple[Shared, ...]]:
    """The servers with includes in place of locations that several of them have, and what those files hold: one file
    for each set of servers whose common locations are more than one."""
    every = tuple(servers)
    if len(every) < 2:
        return every, ()
    places = Counter(map(_place, chain.from_iterable((*x.locations, *x.named) for x in every)))
    users: dict[Location, list[int]] = {}
    first: dict[Location, Location] = {}
    for at, server in enumerate(every):
        for location in (*server.locations, *server.named):
            if places[_place(location)] > 1:  # most paths of many hosts are of one host
                same = replace(location, origin=NONE)
                users.setdefault(same, []).append(at)
                first.setdefault(same, location)
    groups: dict[tuple[int, ...], list[Location]] = {}
    for same, at_servers in users.items():
        if len(at_servers) > 1:
            groups.setdefault(tuple(at_servers), []).append(same)
    files: list[Shared] = []
    names: set[str] = set()
    of_server: dict[int, list[Atom]] = {}
    moved: dict[int, set[Location]] = {}
    for using, common in groups.items():
        if len(common) < _WORTH_A_FILE:
            continue
        name = next((x.route.text for x in common if x.route.text), "common")
        free = next(x for x in chain((name,), (f"{name}-{n}" for n in count(2))) if x not in names)
        names.add(free)
        file = Atom(f"{_COMMON_FOLDER}/{free}.conf")
        files.append((file, tuple(first[each] for each in common)))
        for at in using:
            of_server.setdefault(at, []).append(file)
            moved.setdefault(at, set()).update(common)

    def rest(at: int, locations: tuple[Location, ...]) -> tuple[Location, ...]:
        if at not in moved:
            return locations
        return tuple(x for x in locations if places[_place(x)] < 2 or replace(x, origin=NONE) not in moved[at])

    out = tuple(
        replace(x, locations=rest(at, x.locations), named=rest(at, x.named), includes=tuple(of_server.get(at, ())))
        for at, x in enumerate(every)
    )
    return out, tuple(files)


def _place(location: Location) -> Atom | Literal | None:
    return location.name or location.path or location.below


def share_headers(servers: Iterable[Server], standard: tuple[Header, ...]) -> tuple[tuple[Server, ...], bool]:
    """The servers with locations that include the `standard` headers before their own; whether there are any."""

    def shared(location: Location) -> Location:
        proxy = location.proxy
        if proxy is None or not proxy.headers or proxy.headers[: len(standard)] != standard:
            return location
        return replace(location, proxy=replace(proxy, headers=proxy.headers[len(standard) :], standard_headers=True))

    before = tuple(servers)
    out = tuple(
        replace(x, locations=tuple(map(shared, x.locations)), named=tuple(map(shared, x.named))) for x in before
    )
    locations = (each for x in out for each in (*x.locations, *x.named))
    return out, any(x.proxy is not None and x.proxy.standard_headers for x in locations)


def _body(location: Location) -> Location:
    """What locations with the same body have in common; that of a filtered location has one line more."""
    proxy = None if location.proxy is None else replace(location.proxy, without_headers=False)
    same = replace(location, origin=NONE, path=None, below=None, name=None, retry=False, filtered_before=False)
    return replace(same, proxy=proxy)


def _directives(location: Location) -> int:
    """About how many directives the body has."""
    count = len(location.log_variables)
    if location.guard is not None:
        count += len(location.guard.checks) + len(location.guard.add) + len(location.guard.lines)
    if location.redirect_to is not None:
        return count + (4 if location.redirect_to.after_limits else 2)
    if location.proxy is not None:
        return count + _of_proxy(location.proxy)
    return count + (5 if location.answer is None else _of_answer(location.answer))


@lru_cache(maxsize=1024)  # many locations have the same
def _of_proxy(proxy: Proxy) -> int:
    lists = (proxy.headers, proxy.hide, proxy.add, proxy.lines, proxy.mirrors, proxy.checks)
    jumps = (proxy.failure_to, proxy.next_try, proxy.tunnel_to, proxy.streamed_to, proxy.queue_to, proxy.filtered)
    rest = 1 + 4 * (proxy.times is not None) + proxy.standard_headers + sum(x.replaces for x in proxy.add)
    return rest + sum(map(len, lists)) + 2 * sum(x is not None for x in jumps)


def _of_answer(answer: Answer) -> int:
    return (
        1 + len(answer.add) + (answer.content_type is not None) + 2 * answer.after_retries + answer.may_lack_endpoints
    )
