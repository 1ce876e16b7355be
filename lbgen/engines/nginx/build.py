"""The view of an nginx configuration for a plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.nginx.access_log import POOL, has_own_text, log_format, pool_variable, shared_log
from lbgen.engines.nginx.actions import ADDRESS_STATUSES, RouteActions
from lbgen.engines.nginx.headers import (
    UPGRADES,
    HeaderLines,
    grpc_headers,
    header_directives,
    standard_headers,
    trust_by_listener,
    trust_maps,
)
from lbgen.engines.nginx.health_checks import uses_agent
from lbgen.engines.nginx.includes import share_bodies, share_headers
from lbgen.engines.nginx.l4 import build_stream
from lbgen.engines.nginx.limits import ClientAddresses, real_ip_listeners
from lbgen.engines.nginx.names import Names, reference
from lbgen.engines.nginx.server_blocks import ServerBlocks
from lbgen.engines.nginx.strings import EMPTY, Texts
from lbgen.engines.nginx.support import VERSIONS, Version
from lbgen.engines.nginx.timeouts import client_times, proxy_times
from lbgen.engines.nginx.tls import http_servers
from lbgen.engines.nginx.upstream_protocols import GRPC, PROXY, upstream_module, verifies_address
from lbgen.engines.nginx.upstreams import single_upstreams, upstream
from lbgen.engines.nginx.view import Config, Http, Location, Map, Text, Upstream
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Listener, Mode, Plan, Pool, PoolProtocol, Timeouts
from lbgen.plan.policy import KeyKind
from lbgen.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.nginx.request_values import RequestValues

_DEFAULT_TIMEOUTS = Timeouts(5_000, 60_000, 60_000)
_MAX_DEFAULT_HASH = 48  # names or variables that fit nginx's default hash sizes without a warning
_HASH_MIN = 2048
_MAX_DEFAULT_KEY = 40
_LOGGED = Atom("The pool of a route, for the access log.")
_TARGETS = Atom("New targets, of the raw path, since nginx would decode it; headers of shares.")
_RULES = Atom("Rules that share a location: the first that matches names its own.")


def build(plan: Plan, version: str) -> Config:
    """The view of `plan`, whose verdicts were checked before."""
    l7 = [x for x in plan.listeners if x.mode is Mode.L7]
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


def _pools(plan: Plan, listeners: Iterable[Listener]) -> list[Pool]:
    """The pools that these listeners forward to, in the order of the topology."""
    routes = {rule.route for x in listeners for table in x.hosts for rule in table.rules}
    routes |= {rule.route for x in listeners for rule in x.l4_rules}
    actions = [r.action for r in plan.routes if r.name in routes]
    sticky = {pool.name for pool in plan.pools if pool.sticky}
    forwards = [a for a in actions if isinstance(a, Forward)]
    used = {t.pool for a in forwards for t in a.targets if t.weight or any(o.pool in sticky for o in a.targets)}
    used |= {m.pool for a in forwards for m in a.mirrors}
    return [pool for pool in plan.pools if pool.name in used]


def _http(plan: Plan, listeners: list[Listener], version: Version) -> Http:
    forwards = [r.action for r in plan.routes if isinstance(r.action, Forward)]
    most_used = Counter(a.timeouts for a in forwards).most_common(1)
    default_times = proxy_times(most_used[0][0] if most_used else _DEFAULT_TIMEOUTS)
    texts = Texts()
    with_real_ip = real_ip_listeners(plan)
    trust = trust_by_listener(listeners, with_real_ip)
    actions = RouteActions(Names(), texts, plan, default_times, version, trust)
    servers = ServerBlocks(plan, actions)
    alone = len(listeners) == 1
    lines = {x.name: standard_headers(x, trust.get(x.name), alone=alone) for x in listeners}
    forwarding = {route.name for route in plan.routes if isinstance(route.action, Forward)}
    most = max(listeners, key=lambda x: sum(rule.route in forwarding for table in x.hosts for rule in table.rules))
    shared = lines[most.name]
    shared_times = client_times(listeners[0].timeouts)
    blocks = []
    for listener in listeners:
        own = lines[listener.name]
        headers = () if own == shared else header_directives(own, UPGRADES)
        grpc = grpc_headers(header_directives(own)) if headers else ()
        times = client_times(listener.timeouts)
        blocks += [
            servers.build(listener, each, own, headers, grpc, None if times == shared_times else times)
            for each in http_servers(listener)
        ]
    trusted = [trust_maps(t, alone=alone) for t in dict.fromkeys(trust.values())]
    pools = _pools(plan, listeners)
    guards = actions.guards
    all_upstreams: list[Upstream] = []
    for pool in pools:
        key = hash_key(pool, plan, actions.values, actions.guards.addresses)
        route = (
            reference(actions.sticky_cookies.named_endpoint(pool, pool.sticky))
            if pool.sticky and version.upstreams
            else None
        )
        all_upstreams.append(upstream(pool, key, sticky_route=route))
    single = actions.sticky_cookies.single_pools
    all_upstreams += [u for pool in pools if pool.name in single for u in single_upstreams(pool)]
    log_pool = pool_variable(x for block in blocks for x in (*block.locations, *block.named))
    geos = (*guards.access.geos, *actions.values.geos)
    logged_maps = actions.logged_routes.maps if log_pool == reference(POOL) else ()
    maps = (
        *actions.values.maps,
        *_explain(logged_maps, _LOGGED),
        *guards.maps,
        *_explain(actions.maps, _TARGETS),
        *actions.sticky_cookies.maps,
        *actions.cors.maps,
        *_explain(servers.rule_maps.maps, _RULES),
    )
    checks = (*servers.paths.maps, *servers.head_limits.maps)
    variables = len(checks) + len(maps) + len(actions.pool_selection.splits) + len(texts.constants) + len(geos)
    hosts = [str(table.host) for x in listeners for table in x.hosts]
    headers = header_directives(shared)
    every = [x for block in blocks for x in (*block.locations, *block.named)]
    shared_blocks, headers_file = share_headers(blocks, headers)
    shared_blocks, bodies = share_bodies(shared_blocks)
    return Http(
        servers=shared_blocks,
        bodies=bodies,
        upstreams=tuple(all_upstreams),
        trust_geos=tuple(geo for geo, _ in trusted),
        trust_maps=tuple(m for _, each in trusted for m in each),
        constants=tuple(texts.constants),
        checks=checks,
        maps=maps,
        splits=(*actions.pool_selection.splits, *actions.mirrors.splits),
        headers=headers,
        headers_file=headers_file,
        client_times=shared_times,
        times=default_times,
        forwards=bool(pools),
        jumps=any(map(_jumps, every)),
        recursive=any(_jumps(x) for block in blocks for x in block.named),
        plain_text=any(map(_may_have_extension, every)),
        keeps_args=not has_own_text(plan),
        dollar=texts.dollar,
        hash_size=_hash_size(max(variables, len(hosts))),
        zones=tuple(guards.zones),
        with_real_ip=bool(with_real_ip),
        log=shared_log(plan),
        log_formats=tuple(log_format(x, _request_id(lines[x.name]), log_pool) for x in listeners if x.logs),
        grpc=grpc_headers(headers) if any(upstream_module(pool, version) == GRPC for pool in pools) else (),
        verifies_address=any(pool.tls is not None and verifies_address(pool, pool.tls) for pool in pools),
        tls=any(x.tls is not None for x in listeners),
        http2=any(x.http2 for x in listeners),
        trailers=any(pool.protocol is PoolProtocol.HTTP2 and upstream_module(pool, version) == PROXY for pool in pools),
        geos=geos,
        long_keys=any(len(word) > _MAX_DEFAULT_KEY for word in (*hosts, *_keys(maps))),
    )


def _explain(maps: Iterable[Map], *notes: Atom) -> Iterator[Map]:
    """The maps, the first of them below comment lines."""
    for number, each in enumerate(maps):
        yield replace(each, notes=notes) if not number else each


def _jumps(location: Location) -> bool:
    """Whether the location hands its requests to another one by a status."""
    redirect, answer = location.redirect_to, location.answer
    return (redirect is not None and not redirect.after_limits) or (answer is not None and answer.body_at is not None)


def _may_have_extension(location: Location) -> bool:
    """Whether the location answers with a text of the topology on a path that may end like a file's name."""
    answer = location.answer
    exact = location.path is not None and location.below is None and "." not in location.path.text
    return answer is not None and answer.text is not None and answer.status not in ADDRESS_STATUSES and not exact


def _request_id(lines: HeaderLines) -> Text:
    """The request ID that endpoints get, if any."""
    return next(iter(lines["x-request-id"]), EMPTY)


def hash_key(pool: Pool, plan: Plan, values: RequestValues, addresses: ClientAddresses) -> Atom:
    """The variable that a hash is computed from; the peer's address by default."""
    key = pool.hash_key
    if key is None:
        return addresses.peer()
    if key.kind is KeyKind.HEADER:
        return reference(values.shared_header(key.name, [x for x in plan.listeners if x.mode is Mode.L7]))
    return reference(values.cookie(key.name) if key.kind is KeyKind.COOKIE else values.parameter(key.name))


def _keys(maps: Iterable[Map]) -> Iterable[str]:
    return (e.key.text for m in maps for e in m.entries if not (isinstance(e.key, Literal) and e.key.kind == "regex"))


def _hash_size(count: int) -> int:
    """The size of a hash of `count` words; 0 = nginx's default suffices."""
    return 0 if count <= _MAX_DEFAULT_HASH else max(_HASH_MIN, 1 << (2 * count).bit_length())
