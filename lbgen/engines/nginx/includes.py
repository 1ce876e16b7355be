"""Files for bodies that several locations have, so that each is written once: those of an exact location and its
prefix, and those of the named locations that nginx wants in every server block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, count

from msgspec.structs import replace

from lbgen.engines.nginx.statements import NONE, Header, Location, Proxy, Server
from lbgen.engines.text import Atom

_FOLDER = "routes"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9._]+")


def share_bodies(servers: Iterable[Server]) -> tuple[tuple[Server, ...], tuple[Location, ...]]:
    """The servers with includes in place of bodies that are long and used again, and those bodies."""
    every = tuple(servers)
    uses: Counter[Location] = Counter()
    for server in every:
        for location in (*server.locations, *server.named):
            if not _is_short(location):
                uses[_body(location)] += sum(x is not None for x in (location.path, location.below, location.name))
    files: dict[Location, Location] = {}
    names: set[str] = set()

    def shared(location: Location) -> Location:
        if _is_short(location) or uses[body := _body(location)] < 2:
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
    """What locations with the same body have in common."""
    return replace(location, origin=NONE, path=None, below=None, name=None)


def _is_short(location: Location) -> bool:
    """Whether the body is about as short as an include of it."""
    proxy, answer = location.proxy, location.answer
    if location.guard is not None or (answer is not None and len(answer.add) > 1):
        return False
    return proxy is None or proxy == Proxy(proxy.upstream, proxy.target)
