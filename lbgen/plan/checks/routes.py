"""Routes that contradict themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lbgen.plan.checks.auth import client_fields
from lbgen.plan.conditions import Header, read_conditions
from lbgen.plan.field_scope import FORWARD_ONLY
from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Rule
from lbgen.plan.path_conditions import ExactPath, PrefixPath, read_path
from lbgen.spec.listener import Listener
from lbgen.spec.placeholders import has_placeholder
from lbgen.spec.route import Redirect, Route

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


_DEFAULT_PORTS = {"http": 80, "https": 443}
# What to write instead of a rule, a key or a hash on a field that auth makes.
_INSTEAD_OF_IDENTITY = {
    "headers": "rules are tried before auth: let the service that is asked, or the endpoint, decide by the client",
    "key": "write key: client_ip, or the field by which the client says who it is, key: { header: authorization }",
    "balance": "write source_hash, or hash what the client sends, such as a cookie",
}


def check(context: Context) -> None:
    """LB210 weights, LB212 a redirect to itself, LB213 prefix, LB214 body, LB219 a field without forward, LB228
    pages for gRPC."""
    for index, route in enumerate(context.model.routes):
        field = f"routes[{index}]"
        if route.forward is not None and not any(target.weight for target in route.forward):
            message = "every target has weight 0, so nothing is served"
            context.add("LB210", f"{field}.forward", message, "give one a weight of 1 or more")
        if route.rewrite is not None or route.redirect is not None:
            _prefixes(context, field, route)
        if route.respond is not None and route.respond.status in (204, 304) and route.respond.body:
            message = f"a response of status {route.respond.status} has no body"
            context.add("LB214", f"{field}.respond.body", message, "drop the body, or write status: 200")
        if route.error_pages is not None and route.forward is not None:
            calls = [to.pool for to in route.forward if _protocol(context, to.pool) == "grpc"]
            if calls:
                message = f'pool "{calls[0]}" speaks gRPC, whose clients read no pages'
                context.add("LB228", f"{field}.error_pages", message, "drop it", key=True)
        if route.forward is None:
            action = "redirect" if route.redirect is not None else "respond"
            for key in FORWARD_ONLY:
                if getattr(route, key) is not None:
                    message = f"{key} concerns endpoints, and {action} uses none"
                    context.add("LB219", f"{field}.{key}", message, "drop it", key=True)
    _redirects(context)


def _protocol(context: Context, pool: str) -> str | None:
    found = context.model.pools.get(pool)
    return None if found is None else found.protocol


def _prefixes(context: Context, field: str, route: Route) -> None:
    regexes = [
        n for n, match in enumerate(route.match or ()) if (path := read_path(match)) is not None and not path.is_text
    ]
    for key, edit in (("rewrite", route.rewrite), ("redirect", route.redirect)):
        if regexes and edit is not None and edit.prefix is not None:
            message = f"match[{regexes[0]}] is a regex, which has no prefix to replace"
            context.add("LB213", f"{field}.{key}.prefix", message, "write path:, or match a prefix", key=True)


def _redirects(context: Context) -> None:
    model = context.model
    numbers = {route.name: index for index, route in enumerate(model.routes) if route.redirect is not None}
    told = set()
    for rule in context.expanded.rules if numbers else ():
        index = numbers.get(rule.route)
        if index is None or index in told:
            continue
        redirect = model.routes[index].redirect
        if redirect is None or redirect.to is not None or has_placeholder(f"{redirect.host} {redirect.path}"):
            continue  # where it leads depends on the request
        stays = [
            name
            for name in context.expanded.listeners[index]
            if redirect is not None and _same_place(rule, redirect, model.listeners[name])
        ]
        path = _loop(rule, redirect) if redirect is not None and stays else None
        if path is None or (path and _taken_before(context, rule, path)):
            continue
        told.add(index)
        what = f"{path} leads to itself" if path else "leads every request back to itself"
        message = f'{what} on listener "{stays[0]}"'
        hint = "change scheme, host, port or path" if not path else f"write a route for {path}, or redirect elsewhere"
        context.add("LB212", f"routes[{index}].redirect", message, hint)


def _same_place(rule: Rule, redirect: Redirect, listener: Listener) -> bool:
    own = "http" if listener.tls is None else "https"
    port = redirect.port or (_DEFAULT_PORTS[redirect.scheme] if redirect.scheme else listener.port)
    host = redirect.host is None or (
        rule.host is not None and not rule.host.wildcard and rule.host.name == redirect.host
    )
    return host and port == listener.port and redirect.scheme in (None, own)


def _loop(rule: Rule, redirect: Redirect) -> str | None:
    """The path that leads to itself, "" for every one, None for none."""
    path = rule.match.path
    if redirect.prefix is not None:
        return "" if path.is_text and path.value == PrefixPath.of(redirect.prefix).value else None
    if redirect.path is None:
        return ""
    if not ExactPath(redirect.path).implies(path):
        return None
    return "" if isinstance(path, ExactPath) else redirect.path


def _taken_before(context: Context, rule: Rule, path: str) -> bool:
    """Whether a rule that is tried earlier takes at least some requests for `path` on every host of `rule`."""
    exact = ExactPath(path)
    for other in context.expanded.rules:
        if other.rank >= rule.rank:
            return False
        hosts = other.host is None or (rule.host is not None and other.host.covers_pattern(rule.host))
        if other.route != rule.route and hosts and exact.implies(other.match.path):
            return True
    return False


def check_dropped_headers(context: Context) -> None:
    """LB286: a rule or a key uses a field that all listeners of its route remove."""
    model = context.model
    underscores = {
        name
        for name, listener in model.listeners.items()
        if (listener.headers_with_underscores or model.headers_with_underscores) == "pass"
    }
    trusting = {name for name, listener in model.listeners.items() if listener.trusted_proxies}
    hashed = {
        name: pool.balance.hash.header
        for name, pool in model.pools.items()
        if pool.balance is not None and pool.balance.hash is not None and pool.balance.hash.header
    }
    about_clients = {name: client_fields(model, listener) for name, listener in model.listeners.items()}
    identities = _identities(context)
    said: set[str] = set()
    for index, route in enumerate(model.routes):
        listeners = context.expanded.listeners[index]
        if context.expanded.is_l4(index) or not listeners:
            continue
        for header, field, place in _asked(index, route, hashed):
            if field in said:
                continue
            by = next((name for name in listeners if header in about_clients[name]), None)
            guarded = next((name for name in listeners if header in identities[name]), None)
            if by is not None:
                message = f'{header} says who the client is on listener "{by}", which has its address itself'
                hint = "write match: [{ sources: [10.0.0.0/8] }], or key: client_ip"
            elif guarded is not None:
                of = identities[guarded][header]
                message = f'listener "{guarded}" drops the field {header} of clients, which auth of route "{of}" makes'
                hint = _INSTEAD_OF_IDENTITY[place]
            elif "_" in header and not underscores & set(listeners):
                message = f'listener "{listeners[0]}" drops the field {header}, because its name has an underscore'
                hint = f"write {header.replace('_', '-')}, or headers_with_underscores: pass on the listener"
            elif header in PROXY_FIELDS and not trusting & set(listeners):
                message = f'listener "{listeners[0]}" drops the field {header} of clients, which anybody can set'
                hint = "write the proxies that set it, trusted_proxies: [10.0.0.0/8], on the listener"
            else:
                continue
            said.add(field)
            context.add("LB286", field, message, hint)


def _identities(context: Context) -> dict[str, dict[str, str]]:
    """Of each listener the fields by which auth says who the client is, with a route whose auth does."""
    found: dict[str, dict[str, str]] = {name: {} for name in context.model.listeners}
    for index, route in enumerate(context.model.routes):
        if route.auth is not None and not context.expanded.is_l4(index):
            for name in context.expanded.listeners[index]:
                found[name] |= dict.fromkeys(map(str.lower, route.auth.identity_headers), route.name)
    return found


def _asked(index: int, route: Route, hashed: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The headers that rules and keys of a route look at, by field and kind; `hashed` are those of pools."""
    for number, match in enumerate(route.match or ()):
        for each in read_conditions(match):
            if isinstance(each.subject, Header):
                yield each.subject.name, f"routes[{index}].match[{number}].{each.field}", "headers"
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key is not None and limit.key.header is not None:
            yield limit.key.header, f"routes[{index}].{key}.key", "key"
    for target in route.forward or () if hashed else ():
        if target.pool in hashed:
            yield hashed[target.pool], f"pools.{target.pool}.balance", "balance"
