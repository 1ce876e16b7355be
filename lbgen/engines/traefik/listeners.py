"""L7 and L4 listeners as Traefik's entry points, and what is done for every request of a listener."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.features import FEATURES
from lbgen.engines.traefik.forwarded_headers import build_bare, name_bare
from lbgen.engines.traefik.matching import looks_at_proxies
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.timeouts import FOREVER, duration
from lbgen.engines.traefik.view import find_routes
from lbgen.plan.facts import bind
from lbgen.plan.model import Forward, Listener, Mode, Plan, Protocol, Redirect, Rule
from lbgen.plan.route_values import route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder, Template

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def build_entry_points(plan: Plan, version: str) -> dict[str, Data]:
    """The entry points by name."""
    default = have_same_routers(plan)
    return {names.entry_point(each): _entry_point(plan, each, version, default=default) for each in plan.listeners}


def have_same_routers(plan: Plan) -> bool:
    """Whether every router is for all L7 listeners, which need not be named in it then."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    return len(level7) == 1 or len({(each.tls, *describe_routers(plan, each)) for each in level7}) == 1


def describe_routers(plan: Plan, listener: Listener) -> tuple[object, ...]:
    """What the routers of a listener depend on, apart from TLS."""
    routes = find_routes(plan, listener)
    trusted = listener.trusted_proxies
    believed = trusted if trusted and any(map(looks_at_proxies, _rules(listener))) else ()
    redirects = any(isinstance(route.action, Redirect) for route in routes)
    address = (listener.scheme, listener.client_port) if redirects else ()
    facts = {*shared_facts(listener, routes)}.union(*map(route_facts, routes))
    known = tuple(bind(Template((each,)), "", listener) for each in sorted(facts, key=str))
    above = repr(build_requests(plan, listener)) if runs_before_rules(plan, listener) else ""
    return listener.hosts, listener.access, listener.paths, listener.error_pages, believed, address, known, above


def needs_client_address(plan: Plan, listener: Listener) -> bool:
    """Whether anything depends on the addresses of clients behind trusted proxies, which Traefik's own middlewares
    cannot see for trusted and other peers at once."""
    if not listener.trusted_proxies:
        return False
    asks = [each.by_client for each in FEATURES if each.by_client]
    routes = find_routes(plan, listener)
    if listener.access is not None or listener.asks_client or listener.real_ip or listener.client_header is not None:
        return True
    if Placeholder(Fact.CLIENT_IP) in shared_facts(listener, routes):
        return True
    return any(ask(plan, route) for route in routes for ask in asks)


def runs_before_rules(plan: Plan, listener: Listener) -> bool:
    """Whether rules depend on those addresses too. A middleware of an entry point runs behind the rules, one of a
    router above all others before them."""
    if not needs_client_address(plan, listener):
        return False
    accesses = (listener.access, *(route.access for route in find_routes(plan, listener)))
    return listener.asks_client or any(access is not None and access.deny for access in accesses)


def build_requests(plan: Plan, listener: Listener) -> dict[str, Data]:
    """The middleware for every request of a listener; empty for none."""
    address, target = needs_client_address(plan, listener), listener.limits.target
    settings: dict[str, Data] = {}
    if listener.trusted_proxies and (address or listener.request_id or listener.forwarded):
        settings["trustedProxies"] = list(listener.trusted_proxies)
    if target is not None:
        settings["maxTarget"] = target
    if listener.request_id:
        settings["requestID"] = True
    if address:
        settings["clientAddress"] = True
        if listener.client_header is not None:
            settings["clientHeader"] = "-".join(part.capitalize() for part in listener.client_header.split("-"))
        if not listener.forwarded_headers:
            settings["hideAddress"] = True
        if listener.real_ip:
            settings["realIP"] = True
    if listener.forwarded:
        settings["forwarded"] = listener.scheme
    return use_plugin("requests", settings) if settings else {}


def build_guard(listener: Listener, version: str) -> dict[str, Data]:
    """The middleware that does for 3.6 what Traefik does by itself from 3.7 on; empty for none."""
    return (
        {} if names.has_alias_headers(version) else use_plugin("guard", {"dropUnderscores": not listener.underscores})
    )


def name_guard(listener: Listener) -> str:
    """The name of that middleware."""
    return "guard-but-underscores" if listener.underscores else "guard"


def name_requests(plan: Plan, listener: Listener) -> str:
    """The name of that middleware, which listeners with the same settings share; "" for none."""
    wanted = build_requests(plan, listener)
    if not wanted:
        return ""
    level7 = [each for each in plan.listeners if each.mode is Mode.L7 and build_requests(plan, each)]
    first = next(each for each in level7 if build_requests(plan, each) == wanted)
    return "requests" if first is level7[0] else f"requests{MARK}{first.name}"


def _rules(listener: Listener) -> Iterator[Rule]:
    return (rule for table in listener.hosts for rule in table.rules)


def _entry_point(plan: Plan, listener: Listener, version: str, *, default: bool) -> Tagged:
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    data: dict[str, Data] = {"address": f"{address}:{listener.port}"}
    if listener.protocol is Protocol.UDP:
        data["address"] = f"{address}:{listener.port}/udp"
        data["udp"] = {"timeout": _idle_timeout(plan, listener)}
        return Tagged(listener.field, data)
    if listener.proxy_protocol:
        comment = "From every peer; connections without the header are served too."
        data["proxyProtocol"] = Commented(comment, {"insecure": True})
    if listener.mode is Mode.L7:
        if default:
            data["asDefault"] = True
        for each in FEATURES:
            if each.entry_point:
                data |= each.entry_point(listener, version)
        data["http"] = _http(plan, listener, version)
        data["transport"] = data.pop("transport")  # the last, for readers
    return Tagged(listener.field, data)


def _http(plan: Plan, listener: Listener, version: str) -> dict[str, Data]:
    data: dict[str, Data] = {}
    for each in FEATURES:
        if each.http:
            data |= each.http(listener, version)
    above: list[Data] = [] if plan.admin_port is None else [f"{names.DRAIN}@file"]
    if build_bare(listener):
        above.append(f"{name_bare(listener)}@file")
    if build_requests(plan, listener) and not runs_before_rules(plan, listener):
        above.append(f"{name_requests(plan, listener)}@file")
    if build_guard(listener, version):
        above.append(f"{name_guard(listener)}@file")
    if above:
        data["middlewares"] = above
    return data


def _idle_timeout(plan: Plan, listener: Listener) -> str:
    """The idle timeout of a client of a UDP listener."""
    actions = [plan.route(rule.route).action for rule in listener.l4_rules]
    times = [action.timeouts.idle for action in actions if isinstance(action, Forward)]
    return duration(times[0]) if times and times[0] else FOREVER
