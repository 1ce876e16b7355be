"""The view of an nginx configuration for a plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, count

from msgspec.structs import replace

from lbgen.engines.nginx.access_log import POOL, has_own_text, log_format, shared_log
from lbgen.engines.nginx.definitions import COMMON, Definitions
from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.forward_auth import identity_headers, leads_on
from lbgen.engines.nginx.forwarded_headers import (
    asks_peer,
    grpc_headers,
    header_directives,
    real_ip_listeners,
    standard_headers,
    trust_by_listener,
)
from lbgen.engines.nginx.health_checks import uses_agent
from lbgen.engines.nginx.l4 import build_stream
from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.request_values import RequestValues
from lbgen.engines.nginx.server_blocks import build_server
from lbgen.engines.nginx.statements import NONE, Config, Header, Http, Location, Map, Proxy, Server
from lbgen.engines.nginx.support import VERSIONS, Version
from lbgen.engines.nginx.timeouts import client_times, proxy_times
from lbgen.engines.nginx.tls import http_servers
from lbgen.engines.nginx.upstream_protocols import GRPC, PROXY, upstream_module, upstream_protocol, verifies_address
from lbgen.engines.nginx.upstreams import upstreams
from lbgen.engines.nginx.values import ADDRESS_STATUSES
from lbgen.engines.nginx.view import HttpBlock
from lbgen.engines.text import Atom, Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Forward, Listener, Mode, Plan, Pool, Timeouts
from lbgen.version import VERSION

_DEFAULT_TIMEOUTS = Timeouts(5_000, 60_000, 60_000)
_MAX_DEFAULT_HASH = 48  # names or variables that fit nginx's default hash sizes without a warning
_HASH_MIN = 2048
_MAX_DEFAULT_KEY = 40
_FOLDER = "routes"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9._]+")


def build(plan: Plan, version: str) -> Config:
    """The view of `plan`, whose verdicts were checked before."""
    l7 = tuple(x for x in plan.listeners if x.mode is Mode.L7)
    l4 = [x for x in plan.listeners if x.mode is Mode.L4]
    return Config(
        lbgen=Atom(VERSION),
        topology=Atom.of(r"[A-Za-z0-9._-]*", plan.name),
        version=Atom(version),
        upstreams=VERSIONS[version].upstreams,
        resolvers=tuple(Atom.of(r"[0-9a-fA-F.:\[\]]+", _resolver(r)) for r in plan.resolvers),
        http=_http(plan, l7, VERSIONS[version]) if l7 else None,
        stream=build_stream(plan, l4, _pools(plan, l4)) if l4 else None,
        workers=Atom("auto" if plan.workers is None else str(plan.workers)),
        uses_agent=uses_agent(plan),
    )


def _resolver(address: str) -> str:
    """nginx requires brackets around an IPv6 address."""
    return f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address


def _pools(plan: Plan, listeners: Iterable[Listener]) -> tuple[Pool, ...]:
    """The pools that these listeners forward to, in the order of the topology."""
    routes = {rule.route for x in listeners for table in x.hosts for rule in table.rules}
    routes |= {rule.route for x in listeners for rule in x.l4_rules}
    actions = [r.action for r in plan.routes if r.name in routes]
    sticky = {pool.name for pool in plan.pools if pool.sticky}
    forwards = [a for a in actions if isinstance(a, Forward)]
    used = {t.pool for a in forwards for t in a.targets if t.weight or any(o.pool in sticky for o in a.targets)}
    used |= {m.pool for a in forwards for m in a.mirrors}
    used |= {r.auth.pool for r in plan.routes if r.name in routes and isinstance(r.auth, ForwardAuth)}
    return tuple(pool for pool in plan.pools if pool.name in used)


def _block(plan: Plan, listeners: tuple[Listener, ...], version: Version) -> HttpBlock:
    """What all parts of the http block have in common."""
    real_ip, definitions = real_ip_listeners(plan), Definitions()
    trust = trust_by_listener(listeners, real_ip)
    headers = {
        x.name: standard_headers(x, trust.get(x.name), alone=len(listeners) == 1)
        | identity_headers(x, plan, definitions)
        for x in listeners
    }
    forwards = {route.name: route.action for route in plan.routes if isinstance(route.action, Forward)}
    most = max(listeners, key=lambda x: sum(rule.route in forwards for table in x.hosts for rule in table.rules))
    times = Counter(action.timeouts for action in forwards.values()).most_common(1)
    pools = _pools(plan, listeners)
    return HttpBlock(
        plan=plan,
        version=version,
        listeners=listeners,
        pools=pools,
        definitions=definitions,
        values=RequestValues(definitions, {name: each.name("trusted") for name, each in trust.items()}),
        headers=headers,
        shared_headers=headers[most.name],
        times=proxy_times(times[0][0] if times else _DEFAULT_TIMEOUTS),
        client_times=client_times(listeners[0].timeouts),
        real_ip=real_ip,
        has_grpc=any(upstream_module(pool, version) == GRPC for pool in pools),
    )


def _http(plan: Plan, listeners: tuple[Listener, ...], version: Version) -> Http:
    on = _block(plan, listeners, version)
    blocks = [build_server(on, listener, each) for listener in listeners for each in http_servers(listener)]
    locations = [x for block in blocks for x in (*block.locations, *block.named)]
    lost = any(x.proxy is not None and x.proxy.module.text != PROXY for x in locations)
    has_pages = any(x.error_pages for x in listeners) or any(x.error_pages for x in plan.routes)
    for each in FEATURES:
        if each.http:
            each.http(on, lost)
    all_upstreams = tuple(upstreams(on.pools, on, NONE))
    common, defined = on.definitions.defined(COMMON), on.definitions.defined()
    hosts = [str(table.host) for x in listeners for table in x.hosts]
    headers = header_directives(on.shared_headers)
    log_pool = reference(POOL) if lost else Atom("$proxy_host")  # the gRPC module has no such variable
    shared_blocks, headers_file = _share_headers(blocks, headers)
    shared_blocks, bodies = _share_bodies(shared_blocks)
    return Http(
        servers=shared_blocks,
        bodies=bodies,
        upstreams=all_upstreams,
        common=common,
        defined=defined,
        headers=headers,
        headers_file=headers_file,
        client_times=on.client_times,
        times=on.times,
        forwards=bool(on.pools),
        jumps=any(map(_jumps, locations)),
        recursive=leads_on(plan)
        or any(_jumps(x) or _asks(x) for block in blocks for x in block.named)
        or (has_pages and any(map(_jumps, locations))),
        plain_text=any(map(_may_have_extension, locations)),
        keeps_args=not has_own_text(plan),
        dollar=on.definitions.dollar,
        hash_size=_hash_size(max(on.definitions.count(), len(hosts))),
        with_real_ip=bool(on.real_ip) and asks_peer(on.definitions),
        log=shared_log(plan),
        log_formats=tuple(log_format(x, on.headers[x.name], log_pool) for x in listeners if x.logs),
        grpc=grpc_headers(headers) if on.has_grpc else (),
        verifies_address=any(pool.tls is not None and verifies_address(pool, pool.tls) for pool in on.pools),
        tls=on.has_tls,
        http2=any(x.http2 for x in listeners),
        trailers=any(upstream_protocol(pool, version).http2 for pool in on.pools),
        long_keys=any(len(word) > _MAX_DEFAULT_KEY for word in (*hosts, *_keys(defined.maps))),
    )


def _jumps(location: Location) -> bool:
    """Whether the location hands its requests to another one by a status."""
    redirect, answer = location.redirect_to, location.answer
    return (redirect is not None and not redirect.after_limits) or (answer is not None and answer.body_at is not None)


def _asks(location: Location) -> bool:
    """Whether a service is asked about requests here, whose refusals lead to another location."""
    return location.guard is not None and any(line.name.text == "auth_request" for line in location.guard.lines)


def _may_have_extension(location: Location) -> bool:
    """Whether the location answers with a text of the topology on a path that may end like a file's name."""
    answer = location.answer
    exact = location.path is not None and location.below is None and "." not in location.path.text
    return answer is not None and answer.text is not None and answer.status not in ADDRESS_STATUSES and not exact


def _keys(maps: Iterable[Map]) -> Iterable[str]:
    return (e.key.text for m in maps for e in m.entries if not (isinstance(e.key, Literal) and e.key.kind == "regex"))


def _hash_size(count: int) -> int:
    """The size of a hash of `count` words; 0 = nginx's default suffices."""
    return 0 if count <= _MAX_DEFAULT_HASH else max(_HASH_MIN, 1 << (2 * count).bit_length())


def _share_bodies(servers: Iterable[Server]) -> tuple[tuple[Server, ...], tuple[Location, ...]]:
    """The servers with includes in place of bodies that are long and used again, and those bodies: those of an exact
    location and its prefix, and those of the named locations that nginx wants in every server block."""
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
            name = _NOT_IN_A_NAME.sub("-", (location.name or location.route).text).strip("-.")
            free = next(x for x in chain((name,), (f"{name}-{n}" for n in count(2))) if x not in names)
            names.add(free)
            file = Atom(f"{_FOLDER}/{free}.conf")
            files[body] = replace(body, origin=location.origin, include=file)
        return replace(location, include=files[body].include)

    out = tuple(replace(x, locations=tuple(map(shared, x.locations)), named=tuple(map(shared, x.named))) for x in every)
    return out, tuple(files.values())


def _share_headers(servers: Iterable[Server], standard: tuple[Header, ...]) -> tuple[tuple[Server, ...], bool]:
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
    return replace(location, origin=NONE, path=None, below=None, name=None, checks=(), lines=(), notes=())


def _is_short(location: Location) -> bool:
    """Whether the body is about as short as an include of it."""
    proxy, answer = location.proxy, location.answer
    if location.guard is not None or location.errors or (answer is not None and len(answer.add) > 1):
        return False
    return proxy is None or proxy == Proxy(proxy.upstream, proxy.target)
