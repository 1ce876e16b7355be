"""Advice on routes: timeouts, retries, limits, CORS, redirects, regexes and literal values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.diagnostics import Severity
from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.model import Timeouts
from lbgen.plan.policy import IDEMPOTENT
from lbgen.plan.resolve_policies import forward_timeouts

if TYPE_CHECKING:
    from lbgen.spec.match import Match, PathMatch
    from lbgen.spec.policy import Cors, Retries
    from lbgen.spec.route import Route


SLOWER = 10  # so many times the response time of another route of the pool is another kind of work
_COMPRESSED = ("image/", "video/", "audio/", "font/woff", "application/zip", "application/gzip")
_TEXTS = ("image/svg+xml",)


def check(context: Context) -> None:
    """LB261 to LB263, LB266, LB268, LB270 to LB275, LB278."""
    model = context.model
    times: dict[int, Timeouts] = {}
    for index, route in enumerate(model.routes):
        field = f"routes[{index}]"
        if route.forward is not None and not context.expanded.is_l4(index):
            times[index] = found = forward_timeouts(route.timeouts, model.timeouts)
            _times(context, field, route, found)
            _mirrors(context, field, route)
        if route.retries is not None and route.retries.max:
            _retries(context, field, route, route.retries, times.get(index))
        _cors(context, field, route)
        _keys(context, field, route, index)
        for n, media in enumerate(route.compression.types if route.compression is not None else ()):
            if media.startswith(_COMPRESSED) and media not in _TEXTS:
                message = f"{media} is compressed already: gzip costs time and gains nothing"
                context.advise("LB275", f"{field}.compression.types[{n}]", message, "drop it")
    _shared(context, times)
    _bodies(context)


def _times(context: Context, field: str, route: Route, times: Timeouts) -> None:
    written = route.timeouts
    for key in ("connect", "response", "idle"):
        if written is not None and getattr(written, key) == 0:
            message = f"{key}: 0s waits for ever on an endpoint that hangs"
            context.advise("LB271", f"{field}.timeouts.{key}", message, "write a time, such as 60s")
    if times.request and times.response > times.request:
        whole, response = _shown(times.request), _shown(times.response)
        message = f"the whole request ends after {whole}, before the {response} of response can pass"
        context.advise("LB278", f"{field}.timeouts", message, "make response shorter than request")


def _retries(context: Context, field: str, route: Route, retries: Retries, times: Timeouts | None) -> None:
    if retries.methods == "all" and set(retries.on) - {"connect_failure"}:
        methods = {method for match in route.match or [] for method in match.methods or ()}
        if not methods or methods - set(IDEMPOTENT):
            message = "a request that is not idempotent, such as POST, may be carried out twice"
            hint = "drop methods: all, or limit the match to methods that may be repeated"
            context.advise("LB261", f"{field}.retries.methods", message, hint)
    if times is not None and "timeout" in retries.on:
        total = (retries.max + 1) * times.response
        if times.request and total > times.request:
            message = (
                f"{retries.max + 1} tries of {_shown(times.response)} each are {_shown(total)}, "
                f"more than the {_shown(times.request)} of the whole request: the last is cut short"
            )
            context.advise("LB262", f"{field}.retries", message, "shorten response, or allow fewer tries")
        elif not times.request and times.response:
            message = f"a client may wait {_shown(total)}: {retries.max + 1} tries of {_shown(times.response)} each"
            hint = "write timeouts: { request: ... } with what a client will wait, or shorten response"
            context.advise("LB262", f"{field}.retries", message, hint)
    endpoints = [
        endpoint
        for target in route.forward or ()
        if target.pool in context.model.pools
        for endpoint in context.model.pools[target.pool].endpoints
        if endpoint.weight or endpoint.backup
    ]
    if len(route.forward or ()) == 1 and len(endpoints) == 1 and endpoints[0].service is None:
        message = "the pool has one endpoint, which gets every retry"
        context.advise("LB272", f"{field}.retries", message, "add an endpoint, or drop retries")


def _shared(context: Context, times: dict[int, Timeouts]) -> None:
    """Slow routes hold the connections and workers that fast ones of the same pool need."""
    routes = context.model.routes
    by_pool: dict[str, list[int]] = {}
    for index in times:
        for target in routes[index].forward or ():
            by_pool.setdefault(target.pool, []).append(index)
    for pool, users in by_pool.items():
        limited = [index for index in users if times[index].response]
        if len(limited) < 2:
            continue
        slow, fast = max(limited, key=lambda i: times[i].response), min(limited, key=lambda i: times[i].response)
        if times[slow].response >= SLOWER * times[fast].response:
            message = (
                f'slow route "{routes[slow].name}" ({_shown(times[slow].response)}) and fast route '
                f'"{routes[fast].name}" ({_shown(times[fast].response)}) share its connections and endpoints'
            )
            context.advise("LB263", f"pools.{pool}", message, "give the slow one a pool of its own")


def _bodies(context: Context) -> None:
    """Once for a topology, at its first route that takes bodies."""
    if context.model.max_body is not None:
        return
    open_ended = [
        (index, route.name)
        for index, route in enumerate(context.model.routes)
        if route.forward is not None and not context.expanded.is_l4(index) and route.max_body is None
    ]
    if open_ended:
        names = list_names(name for _, name in open_ended)
        message = f"bodies of any size reach the endpoints of route {names}"
        context.advise("LB266", f"routes[{open_ended[0][0]}]", message, "write max_body: 10MiB, or what is needed")


def _cors(context: Context, field: str, route: Route) -> None:
    cors: Cors | None = route.cors
    if cors is None:
        return
    if "*" in cors.origins and cors.credentials:
        message = "any page could act with a visitor's cookies, and browsers refuse * with credentials"
        hint = "list the origins, or drop credentials: true"
        context.add("LB273", f"{field}.cors", message, hint, Severity.ERROR)
    if "null" in cors.origins and cors.credentials:
        message = "any page could act with a visitor's cookies, from a frame that it sandboxes"
        context.add("LB273", f"{field}.cors", message, "drop null, or credentials: true", Severity.WARNING)
    without = [
        n for n, match in enumerate(route.match or []) if match.methods is not None and "OPTIONS" not in match.methods
    ]
    if without and len(without) == len(route.match or []):
        message = "browsers send an OPTIONS request first, which this route does not match"
        context.advise("LB268", f"{field}.match[{without[0]}].methods", message, "add OPTIONS to methods")


def _keys(context: Context, field: str, route: Route, index: int) -> None:
    listeners = [context.model.listeners[name] for name in context.expanded.listeners[index]]
    blind = all(not x.trusted_proxies and x.proxy_protocol is None for x in listeners)
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key.by == "client_ip" and blind:
            message = "behind a proxy or CDN all clients have its address and share one limit"
            hint = "name it in trusted_proxies of the listener; ignore this where clients connect directly"
            context.advise("LB270", f"{field}.{key}", message, hint)


def _mirrors(context: Context, field: str, route: Route) -> None:
    own = {target.pool for target in route.forward or ()}
    for n, mirror in enumerate(route.mirror or ()):
        if mirror.pool in own:
            message = f'copies go to pool "{mirror.pool}", which serves the route already'
            context.advise("LB274", f"{field}.mirror[{n}]", message, "mirror to another pool")


def _shown(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds % 1000 else f"{milliseconds // 1000} s"


_HTTPS = 443


def check_redirects(context: Context) -> None:
    """LB290: a redirect to https that leads to a port without TLS. The host stays the request's: the client asks this
    topology again. Proxies in front, which listeners trust, may speak TLS for it."""
    listeners = context.model.listeners
    ports = [x.port for x in listeners.values() if x.tls is not None]
    for index, route in enumerate(context.model.routes):
        to = route.redirect
        if to is None or to.scheme != "https" or to.host is not None:
            continue
        port = to.port if to.port is not None else _HTTPS
        names = context.expanded.listeners[index]
        behind_proxies = not ports and any(listeners[name].trusted_proxies for name in names)
        if port in ports or behind_proxies or (to.port is None and all(listeners[x].tls is not None for x in names)):
            continue
        here = f"TLS is on port {' and '.join(map(str, ports))} here" if ports else "no listener speaks TLS here"
        message = f"the redirect leads to port {port}, and {here}"
        what = f"{'write' if to.port is not None else 'add'} port: {ports[0]}" if ports else "add a listener with tls:"
        hint = f"{what}; ignore this where something in front speaks TLS on {port}"
        context.advise("LB290", f"routes[{index}].redirect", message, hint)


_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_BELOW = re.compile(r"\((?:\?:)?/\.\*\)\?\Z")


def check_regexes(context: Context) -> None:
    """LB265: a path, header, query or cookie regex that equals an exact text or a prefix."""
    for index, route in enumerate(context.model.routes):
        for n, match in enumerate(route.match or ()):
            place = f"routes[{index}].match[{n}]"
            if (
                match.path is not None
                and match.path.regex is not None
                and (plain := plain_equivalent(match.path.regex))
            ):
                message = f"{match.path.regex} matches the same as a plain path, which is cheaper"
                context.advise("LB265", f"{place}.path.regex", message, f"write path: {{ {plain} }}")
            for field, regex, text in _values(match):
                context.advise("LB265", f"{place}.{field}", f"{regex} matches one text only", f'write "{text}"')


def _values(match: Match) -> Iterator[tuple[str, str, str]]:
    for key in ("headers", "query", "cookies"):
        for name, value in (getattr(match, key) or {}).items():
            if value.regex is not None and (text := literal_text(_bare(value.regex))):
                yield f"{key}.{name}", value.regex, text


def plain_equivalent(pattern: str) -> str | None:
    """`exact: /a` or `prefix: /a` where that provably matches the same paths; None otherwise.

    An escape in the text is left alone: a regex sees its hex case, an exact path does not.
    """
    pattern = _bare(pattern)
    if pattern in (".*", "/.*"):
        return "prefix: /"
    below = _BELOW.search(pattern)
    text = literal_text(pattern[: below.start()] if below else pattern)
    if not text or not text.startswith("/") or "%" in text or "//" in text:
        return None
    if below is None:
        return f"exact: {text}"
    return f"prefix: {text}" if not text.endswith("/") else None


def _bare(pattern: str) -> str:
    """Without anchors, as a regex matches the whole value."""
    pattern = pattern.removeprefix("^")
    return pattern[:-1] if pattern.endswith("$") and not pattern.endswith("\\$") else pattern


def literal_text(pattern: str) -> str | None:
    """The only text that `pattern` matches; None unless it is plain characters and escaped punctuation."""
    found = ""
    characters = iter(pattern)
    for char in characters:
        if char == "\\":
            char = next(characters, "")
            if not char or char.isalnum() or not char.isascii():
                return None
        elif char in _SPECIAL:
            return None
        found += char
    return found


_GROUP = re.compile(r"[$\\][0-9]|\$\{?[a-z][a-z0-9_]+\}?")
_PLACEHOLDER = re.compile(r"(?<=/):[A-Za-z_][A-Za-z0-9_]*(?=/|$)|(?<=/)\*(?=/)")


def check_literals(context: Context) -> None:
    """LB295 on paths, and LB296."""
    for index, route in enumerate(context.model.routes):
        field = f"routes[{index}]"
        for place, value in _paths(field, route):
            if found := _GROUP.search(value):
                message = f"{found[0]} is part of the path as it stands, as no variable is replaced"
                hint = "write the path itself; prefix: replaces what a match begins with"
                if ".redirect." in place:
                    hint = "write {1} for a group of a match by regex; prefix: replaces what a match begins with"
                context.advise("LB295", place, message, hint)
        for number, match in enumerate(route.match or ()):
            if match.path is not None:
                _placeholder(context, f"{field}.match[{number}].path", match.path)


def _placeholder(context: Context, field: str, path: PathMatch) -> None:
    for kind, value in (("exact", path.exact), ("prefix", path.prefix)):
        if value is None:
            continue
        above = re.fullmatch(r"(/.*?)/?[*]{1,2}", value)
        if above is not None and not _PLACEHOLDER.search(above[1]):
            message = f"{value} matches a path with an asterisk only"
            context.advise("LB296", f"{field}.{kind}", message, f"write prefix: {above[1]}, which covers all below")
        elif found := _PLACEHOLDER.search(value):
            regex = _PLACEHOLDER.sub("[^/]+", value)
            message = f"{found[0]} matches these characters only"
            context.advise("LB296", f"{field}.{kind}", message, f'write regex: "{regex}"')


def _paths(field: str, route: Route) -> Iterator[tuple[str, str]]:
    """The paths that the route writes, each with its place."""
    for name, action in (("redirect", route.redirect), ("rewrite", route.rewrite)):
        for key in ("path", "prefix"):
            if (value := getattr(action, key, None)) is not None:
                yield f"{field}.{name}.{key}", value
