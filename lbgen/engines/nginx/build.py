"""Plan -> the whole of an nginx configuration as typed views."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.nginx import queues
from lbgen.engines.nginx.access import seen_through
from lbgen.engines.nginx.access_log import log_format
from lbgen.engines.nginx.actions import Actions
from lbgen.engines.nginx.connection_options import ENDED, LEFT
from lbgen.engines.nginx.headers import printed, standard, trust_maps, trusts
from lbgen.engines.nginx.health_checks import may_be_empty, steered
from lbgen.engines.nginx.l4 import stream
from lbgen.engines.nginx.limits import limited
from lbgen.engines.nginx.listeners import blocks as faces
from lbgen.engines.nginx.matching import variable
from lbgen.engines.nginx.names import Names, reference
from lbgen.engines.nginx.paths import well_formed
from lbgen.engines.nginx.scripts import modules
from lbgen.engines.nginx.server_blocks import Servers
from lbgen.engines.nginx.strings import EMPTY, Texts
from lbgen.engines.nginx.timeouts import duration, times
from lbgen.engines.nginx.upstream_protocols import GRPC, by_address, kind
from lbgen.engines.nginx.upstreams import singles
from lbgen.engines.nginx.upstreams import upstreams as upstreams_of
from lbgen.engines.nginx.view import ClientTimes, Config, Http
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Mode, Timeouts
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.headers import Lines
    from lbgen.engines.nginx.request_values import Values
    from lbgen.engines.nginx.view import Map, Text
    from lbgen.plan.model import ClientTimeouts, Listener, Plan, Pool

OLD = "1.22"
PEER = Atom("$binary_remote_addr")
_USUAL = Timeouts(5_000, 60_000, 60_000)
_HASH_OWN = 48  # names or variables that fit nginx's own hash sizes without a warning
_HASH_LEAST = 2048
_WORD_OWN = 40
# Fields that a Connection header may name without consequence: they are dropped anyway, and Host never is.
_HOP_BY_HOP = (
    "close|keep-alive|upgrade|te|trailers?|transfer-encoding|content-length|expect|proxy-connection|http2-settings"
)
_MADE = "|x-forwarded-port|x-request-id"
_NEVER_NOMINATED = r"(?i)(?:^|,)[ \t]*(?:host|x-forwarded-(?:for|host|proto)|:[^,]*)[ \t]*(?:,|$)"


def build(plan: Plan, version: str) -> Config:
    """The views for `plan`, whose verdicts were checked."""
    l7 = [x for x in plan.listeners if x.mode is Mode.L7]
    l4 = [x for x in plan.listeners if x.mode is Mode.L4]
    return Config(
        topology=Atom.of(r"[A-Za-z0-9._-]*", plan.name),
        version=Atom(version),
        old=version == OLD,
        resolvers=tuple(Atom.of(r"[0-9a-fA-F.:\[\]]+", _resolver(r)) for r in plan.resolvers),
        http=_http(plan, l7, old=version == OLD) if l7 else None,
        stream=stream(plan, l4, _pools(plan, l4)) if l4 else None,
        steered=steered(plan),
    )


def _resolver(address: str) -> str:
    """nginx wants brackets around an IPv6 address."""
    return f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address


def client_times(wanted: ClientTimeouts) -> ClientTimes:
    return ClientTimes(duration(wanted.header), duration(wanted.body), duration(wanted.keepalive))


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


def _http(plan: Plan, listeners: list[Listener], *, old: bool) -> Http:
    forwards = [r.action for r in plan.routes if isinstance(r.action, Forward)]
    usual = times(Counter(a.timeouts for a in forwards).most_common(1)[0][0] if forwards else _USUAL)
    texts = Texts()
    actions = Actions(Names(), texts, plan, usual, old=old)
    servers = Servers(plan, actions, old=old)
    replaced = seen_through(plan)
    trust = trusts(listeners, replaced)
    lines = {x.name: standard(x, trust.get(x.name)) for x in listeners}
    shared = lines[listeners[0].name]
    client = client_times(listeners[0].timeouts)
    blocks = []
    for listener in listeners:
        own = lines[listener.name]
        headers = () if own == shared else printed(own)
        wanted = client_times(listener.timeouts)
        for face in faces(listener):
            own_times = None if wanted == client else wanted
            blocks.append(servers.of(listener, face, own, headers, printed(own, GRPC) if headers else (), own_times))
    geos = dict.fromkeys(trust.values())
    made = [trust_maps(t, actions.sent) for t in geos]
    pools = _pools(plan, listeners)
    gates = actions.gates
    blocks_of = [
        upstreams_of(
            pool,
            hash_key(pool, servers.values, replaced),
            old=old,
            stuck=None if pool.sticky is None or old else reference(actions.stickies.asked(pool, pool.sticky)),
        )
        for pool in pools
    ]
    upstreams = tuple(u for made in blocks_of for u in made)
    upstreams += tuple(u for pool in pools if pool.name in actions.retries.single for u in singles(pool))
    maps = (
        *servers.values.maps,
        *actions.sent.maps,
        *servers.paths.maps,
        *servers.sizes.maps,
        *gates.maps,
        *actions.maps,
        *actions.stickies.maps,
        *actions.cors.maps,
        *actions.compressions.maps,
        *actions.retries.maps,
        *actions.queues.maps,
        *servers.maps,
    )
    variables = len(maps) + len(actions.chooser.splits) + len(texts.constants) + len(gates.gatekeeper.geos)
    hosts = [str(table.host) for x in listeners for table in x.hosts]
    nominates = any(x.proxy is not None and x.proxy.made is not None for block in blocks for x in block.named)
    waiting = () if old else queues.zones(plan)
    scripts = (
        *servers.paths.scripts,
        *servers.sizes.scripts,
        *((LEFT, ENDED) if nominates else ()),
        *(queues.SCRIPTS if waiting else ()),
    )
    nominated = _HOP_BY_HOP + ("" if trust else _MADE)
    return Http(
        servers=tuple(blocks),
        upstreams=upstreams,
        trusts=tuple(geo for geo, _ in made),
        trust_maps=tuple(m for _, each in made for m in each),
        constants=tuple(texts.constants),
        maps=maps,
        splits=(*actions.chooser.splits, *actions.mirrors.splits),
        headers=printed(shared),
        client_times=client,
        times=usual,
        forwards=bool(pools),
        well_formed=well_formed(http2=any(x.http2 for x in listeners)),
        never_nominated=Literal(_NEVER_NOMINATED, "regex"),
        nothing_nominated=Literal(rf"(?i)^[ \t,]*(?:(?:{nominated})(?:[ \t]*,[ \t,]*|[ \t]*$))*$", "regex"),
        rewrites=actions.rewrites or nominates,
        nominates=nominates,
        names=any(may_be_empty(pool) for pool in pools),
        dollar=texts.dollar,
        many=_hash_size(max(variables, len(hosts))),
        zones=tuple(gates.zones),
        replaced=bool(replaced),
        introduced=any(x.proxy_protocol for x in listeners),
        formats=tuple(log_format(x, _request_id(lines[x.name])) for x in listeners if x.access_log),
        grpc=printed(shared, GRPC) if any(kind(pool, old=old) == GRPC for pool in pools) else (),
        by_address=any(pool.tls is not None and by_address(pool, pool.tls) for pool in pools),
        http2=any(x.http2 for x in listeners),
        tls=any(x.tls is not None for x in listeners),
        client_certificates=any(x.tls is not None and x.tls.client_ca is not None for x in listeners),
        geos=tuple(gates.gatekeeper.geos),
        limited=any(limited(route) for route in plan.routes),
        modules=modules(scripts),
        scripts=scripts,
        queues=waiting,
        long=any(len(word) > _WORD_OWN for word in (*hosts, *_keys(maps))),
    )


def _request_id(lines: Lines) -> Text:
    """What endpoints are told, if they are told any."""
    return next(iter(lines["x-request-id"]), EMPTY)


def hash_key(pool: Pool, values: Values, replaced: frozenset[str]) -> Atom:
    """What requests to the pool are told apart by; the peer where nothing is said."""
    key = pool.hash_key
    if key is None:
        return reference("peer") if replaced else PEER
    if key.kind is KeyKind.HEADER:
        return reference(variable(key.name))
    return reference(values.cookie(key.name) if key.kind is KeyKind.COOKIE else values.parameter(key.name))


def _keys(maps: Iterable[Map]) -> Iterable[str]:
    return (e.key.text for m in maps for e in m.entries if not (isinstance(e.key, Literal) and e.key.kind == "regex"))


def _hash_size(count: int) -> int:
    """A size for a hash of `count` words; 0 when nginx's own will do."""
    return 0 if count <= _HASH_OWN else max(_HASH_LEAST, 1 << (2 * count).bit_length())
