"""The view of an nginx configuration for a plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.nginx import connection_options, queues
from lbgen.engines.nginx.access_log import POOL, has_own_text, log_format, pool_variable
from lbgen.engines.nginx.actions import RouteActions
from lbgen.engines.nginx.headers import header_directives, standard_headers, trust_by_listener, trust_maps
from lbgen.engines.nginx.health_checks import uses_agent
from lbgen.engines.nginx.includes import share_bodies, share_headers, share_locations
from lbgen.engines.nginx.l4 import build_stream
from lbgen.engines.nginx.limits import has_limits, real_ip_listeners
from lbgen.engines.nginx.listeners import virtual_servers
from lbgen.engines.nginx.local_replies import continues_elsewhere, may_have_extension
from lbgen.engines.nginx.names import Names, reference
from lbgen.engines.nginx.paths import plain_request, well_formed_request
from lbgen.engines.nginx.server_blocks import ServerBlocks
from lbgen.engines.nginx.strings import EMPTY, Texts
from lbgen.engines.nginx.support import VERSIONS
from lbgen.engines.nginx.timeouts import client_times, own_client_times, proxy_times
from lbgen.engines.nginx.upstream_protocols import GRPC, upstream_module, verifies_address
from lbgen.engines.nginx.upstreams import may_be_empty, single_upstreams, upstreams
from lbgen.engines.nginx.view import Config, Http
from lbgen.engines.text import Atom, Literal
from lbgen.plan.guarantees import Guarantees
from lbgen.plan.model import Forward, Mode, Timeouts
from lbgen.plan.policy import KeyKind, Limits
from lbgen.records import replace
from lbgen.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.nginx.headers import HeaderLines
    from lbgen.engines.nginx.limits import ClientAddresses
    from lbgen.engines.nginx.request_values import RequestValues
    from lbgen.engines.nginx.support import Version
    from lbgen.engines.nginx.view import Map, Text, Upstream
    from lbgen.plan.model import Listener, Plan, Pool

_DEFAULT_TIMEOUTS = Timeouts(5_000, 60_000, 60_000)
_MAX_DEFAULT_HASH = 48  # names or variables that fit nginx's default hash sizes without a warning
_HASH_MIN = 2048
_MAX_DEFAULT_KEY = 40
# Fields that Connection may name without effect: nginx drops them anyway, or sets them itself.
_HOP_BY_HOP = (
    "close|keep-alive|upgrade|te|trailers?|transfer-encoding|content-length|expect|proxy-connection|http2-settings"
)
_SET_BY_NGINX = "|x-forwarded-port|x-request-id"
_NEVER_NOMINATED = r"(?i)(?:^|,)[ \t]*(?:host|x-forwarded-(?:for|host|proto)|:[^,]*)[ \t]*(?:,|$)"
_LOGGED = Atom("The pool of a route, for the access log.")
_CLIENT_HEADERS = Atom("Headers of clients, empty where Connection names them.")
_TARGETS = Atom("Targets of rewrites and redirects, and headers of shares.")
_RULES = Atom("Rules that share a location: the first that matches names its own.")
_FILTERED_RULES = (
    Atom("A server sends requests whose Connection names fields to the locations below by returning 596, so that no"),
    Atom("other location tests for them: $filtered_* is their route, else empty. It comes from $rule_*, unless nginx"),
    Atom("enters the server again for the answer to a broken body (/../refused)."),
)
_FILTERED = (
    Atom(
        "Where requests go whose Connection names fields, by their route: the location, upstream and target, and what"
    ),
    Atom("headers nginx sets there itself. Where the script fails on a field that it cannot write, nginx refuses."),
)


def build(plan: Plan, version: str) -> Config:
    """The view of `plan`, whose verdicts were checked before."""
    l7 = [x for x in plan.listeners if x.mode is Mode.L7]
    l4 = [x for x in plan.listeners if x.mode is Mode.L4]
    return Config(
        lbgen=Atom(VERSION),
        topology=Atom.of(r"[A-Za-z0-9._-]*", plan.name),
        version=Atom(version),
        scripts=VERSIONS[version].scripts,
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
    kept = _kept(listeners)
    with_real_ip = real_ip_listeners(plan)
    trust = trust_by_listener(listeners, with_real_ip)
    actions = RouteActions(Names(), texts, plan, kept, default_times, version, trust)
    servers = ServerBlocks(plan, actions)
    alone = len(listeners) == 1
    filters = kept.connection_options
    lines = {x.name: standard_headers(x, trust.get(x.name), filters=filters, alone=alone) for x in listeners}
    shared = lines[listeners[0].name]
    shared_times = client_times(listeners[0].timeouts)
    blocks = []
    for listener in listeners:
        own = lines[listener.name]
        headers = () if own == shared else header_directives(own, filters=actions.filters)
        grpc = header_directives(own, GRPC) if headers else ()
        times = own_client_times(client_times(listener.timeouts), shared_times)
        blocks += [servers.build(listener, each, own, headers, grpc, times) for each in virtual_servers(listener)]
    trusted = [trust_maps(t, actions.client_headers, alone=alone) for t in dict.fromkeys(trust.values())]
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
        all_upstreams += upstreams(pool, key, sticky_route=route)
    all_upstreams += [u for pool in pools if pool.name in actions.retries.single_pools for u in single_upstreams(pool)]
    log_pool = reference(POOL)
    if not kept.answers:
        log_pool = pool_variable(x for block in blocks for x in (*block.locations, *block.named))
    logged_maps = actions.logged_routes.maps if log_pool == reference(POOL) else ()
    client_maps = actions.client_headers.maps
    maps = (
        *actions.values.maps,
        *_explain(logged_maps, _LOGGED),
        *_explain(client_maps, _CLIENT_HEADERS),
        *servers.paths.maps,
        *servers.head_limits.maps,
        *guards.maps,
        *_explain(actions.maps, *([_TARGETS] if client_maps else ())),
        *actions.sticky_cookies.maps,
        *actions.cors.maps,
        *actions.compression.maps,
        *actions.retries.maps,
        *actions.queues.maps,
        *_explain(servers.rule_maps.maps, _RULES),
        *_explain(servers.rule_maps.filtered_maps, *_FILTERED_RULES),
        *_explain(servers.filtered.maps, *_FILTERED),
    )
    variables = len(maps) + len(actions.pool_selection.splits) + len(texts.constants) + len(guards.access.geos)
    hosts = [str(table.host) for x in listeners for table in x.hosts]
    nominates = any(x.proxy is not None and x.proxy.without_headers for block in blocks for x in block.named)
    queue_zones = queues.zones(plan) if version.upstreams else ()
    scripts = (
        *servers.paths.scripts,
        *servers.head_limits.scripts,
        *(connection_options.SCRIPTS if nominates else ()),
        *(queues.SCRIPTS if queue_zones else ()),
    )
    refusals = kept.answers or any(_answers_refusals(x) for x in listeners)
    harmless = _HOP_BY_HOP + ("" if trust else _SET_BY_NGINX)
    headers = header_directives(shared, filters=actions.filters)
    shared_blocks, headers_file = share_headers(blocks, headers)
    shared_blocks, bodies = share_bodies(shared_blocks)
    shared_blocks, shared_files = share_locations(shared_blocks)
    return Http(
        servers=shared_blocks,
        bodies=bodies,
        shared=shared_files,
        upstreams=tuple(all_upstreams),
        trust_geos=tuple(geo for geo, _ in trusted),
        trust_maps=tuple(m for _, each in trusted for m in each),
        constants=tuple(texts.constants),
        maps=maps,
        splits=(*actions.pool_selection.splits, *actions.mirrors.splits),
        headers=headers,
        headers_file=headers_file,
        client_times=shared_times,
        times=default_times,
        forwards=bool(pools),
        jumps=any(
            (each.redirect_to is not None and not each.redirect_to.after_limits)
            or (each.answer is not None and each.answer.body_at is not None)
            for block in blocks
            for each in (*block.locations, *block.named)
        ),
        plain_text=kept.answers
        or any(may_have_extension(x) for block in blocks for x in (*block.locations, *block.named)),
        answers=kept.answers,
        refusals=refusals,
        keeps_args=not (refusals or has_own_text(plan)),
        recursive=kept.answers or any(continues_elsewhere(x) for block in blocks for x in block.named),
        refused=kept.paths or kept.framing,
        plain_request=plain_request(http2=any(x.http2 for x in listeners)),
        well_formed_request=well_formed_request(http2=any(x.http2 for x in listeners)),
        never_nominated=Literal(_NEVER_NOMINATED, "regex"),
        nothing_nominated=Literal(rf"(?i)^[ \t,]*(?:(?:{harmless})(?:[ \t]*,[ \t,]*|[ \t]*$))*$", "regex"),
        connection_options=kept.connection_options or kept.paths or kept.framing,
        nominates=nominates,
        may_lack_endpoints=any(may_be_empty(pool) for pool in pools),
        dollar=texts.dollar,
        hash_size=_hash_size(max(variables, len(hosts))),
        zones=tuple(guards.zones),
        with_real_ip=bool(with_real_ip),
        proxy_protocol=any(x.proxy_protocol for x in listeners),
        log=servers.shared_log,
        log_formats=tuple(
            log_format(x, _request_id(lines[x.name]), log_pool, actions.logged_routes.only.get(x.name))
            for x in listeners
            if x.logs
        ),
        grpc=header_directives(shared, GRPC) if any(upstream_module(pool, version) == GRPC for pool in pools) else (),
        verifies_address=any(pool.tls is not None and verifies_address(pool, pool.tls) for pool in pools),
        tls=any(x.tls is not None for x in listeners),
        client_certificates=any(x.tls is not None and x.tls.client_ca is not None for x in listeners),
        geos=tuple(guards.access.geos),
        has_limits=any(has_limits(route) for route in plan.routes),
        scripts=scripts,
        queues=queue_zones,
        long_keys=any(len(word) > _MAX_DEFAULT_KEY for word in (*hosts, *_keys(maps))),
    )


def _explain(maps: Iterable[Map], *notes: Atom) -> Iterator[Map]:
    """The maps, the first of them below comment lines."""
    for number, each in enumerate(maps):
        yield replace(each, notes=notes) if not number else each


def _kept(listeners: Iterable[Listener]) -> Guarantees:
    """What some listener keeps to the letter: all are served by one http block, and more than is asked does no harm."""
    every = tuple(x.guarantees for x in listeners)
    return Guarantees(
        paths=any(x.paths for x in every),
        framing=any(x.framing for x in every),
        connection_options=any(x.connection_options for x in every),
        answers=any(x.answers for x in every),
    )


def _answers_refusals(listener: Listener) -> bool:
    """Whether a field asks for an answer to requests that nginx refuses: 431, or none without a client certificate."""
    return listener.limits != Limits() or (listener.tls is not None and listener.tls.client_ca is not None)


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
