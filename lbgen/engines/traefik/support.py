"""Every feature of the contract -> how Traefik 3.7 honours it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, NOT_YET, Objection, approximate, emulated, refused
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import Verdict
    from lbgen.plan.model import Plan

_RULES = emulated("the lbgen plugin on the parent router finds the rule in tables; child routers lead to the service")
_LAST_HOP = emulated("the lbgen plugin sends the request on, because Traefik's own proxy would change it")
_ANSWER = emulated("the lbgen plugin answers")
_EDITS = emulated("the lbgen plugin edits the headers; Traefik's headers middleware can only set")

_SUPPORT: dict[Feature, Verdict] = {
    Feature.L7: NATIVE,
    Feature.L4_TCP: NATIVE,
    Feature.L4_UDP: NOT_YET,
    Feature.TLS_TERMINATE: NOT_YET,
    Feature.TLS_CLIENT_CERT: NOT_YET,
    Feature.TLS_PASSTHROUGH: NOT_YET,
    Feature.HTTP2: NOT_YET,
    Feature.PROXY_PROTOCOL_IN: NOT_YET,
    Feature.MAX_CONNECTIONS: NOT_YET,
    Feature.LISTENER_ACCESS: NOT_YET,
    Feature.LISTENER_LIMITS: NOT_YET,
    Feature.CLIENT_TIMEOUTS: NOT_YET,
    Feature.TRUSTED_PROXIES: emulated("the lbgen plugin decides whose forwarded headers stay"),
    Feature.DUAL_STACK: NATIVE,
    Feature.HOST_EXACT: _RULES,
    Feature.HOST_WILDCARD: _RULES,
    Feature.PATH_EXACT: _RULES,
    Feature.PATH_PREFIX: _RULES,
    Feature.PATH_REGEX: _RULES,
    Feature.METHOD: _RULES,
    Feature.HEADER: _RULES,
    Feature.HEADER_REGEX: _RULES,
    Feature.HEADER_PRESENT: _RULES,
    Feature.QUERY: _RULES,
    Feature.QUERY_REGEX: _RULES,
    Feature.QUERY_PRESENT: _RULES,
    Feature.COOKIE: _RULES,
    Feature.COOKIE_REGEX: _RULES,
    Feature.COOKIE_PRESENT: _RULES,
    Feature.PRIORITY: _RULES,
    Feature.L4_SNI: NOT_YET,
    Feature.L4_SOURCES: NOT_YET,
    Feature.PATHS_STRICT: emulated(
        "the lbgen plugin checks the target as the client sent it, before Traefik decoded it"
    ),
    Feature.PATHS_ALLOW: NOT_YET,
    Feature.PATHS_NORMALIZE: NOT_YET,
    Feature.PATHS_VERBATIM: NOT_YET,
    Feature.FRAMING: approximate(
        "what Go's server refuses before any plugin runs gets Traefik's own text instead of the reason phrase, CONNECT "
        "and unknown transfer codings 501, other HTTP versions 505; bare line feeds and folded lines are accepted"
    ),
    Feature.HOP_BY_HOP: approximate(
        "of an untrusted client X-Forwarded-Server, and an X-Real-Ip that is its own address, are dropped as well; "
        "Pragma: no-cache gains Cache-Control: no-cache"
    ),
    Feature.CONNECTION_NOMINATED: NATIVE,
    Feature.FORWARDED_HEADERS: emulated("the lbgen plugin writes them; Traefik's own port is not the listener's"),
    Feature.REQUEST_ID: emulated("the lbgen plugin makes the id"),
    Feature.REQUEST_HEADERS_SET: _EDITS,
    Feature.REQUEST_HEADERS_ADD: _EDITS,
    Feature.REQUEST_HEADERS_REMOVE: _EDITS,
    Feature.RESPONSE_HEADERS_SET: _EDITS,
    Feature.RESPONSE_HEADERS_ADD: _EDITS,
    Feature.RESPONSE_HEADERS_REMOVE: _EDITS,
    Feature.FORWARD: _LAST_HOP,
    Feature.SPLIT: NATIVE,
    Feature.SPLIT_HEADERS: emulated("the lbgen plugin picks the target by weight and edits its headers"),
    Feature.REDIRECT: emulated("the lbgen plugin answers; Traefik's redirects know neither every status nor the port"),
    Feature.RESPOND: emulated("the lbgen plugin answers; Traefik has no answer with a body of its own"),
    Feature.REWRITE_PREFIX: _LAST_HOP,
    Feature.REWRITE_PATH: _LAST_HOP,
    Feature.REWRITE_HOST: _LAST_HOP,
    Feature.MIRROR: NOT_YET,
    Feature.CORS: NOT_YET,
    Feature.COMPRESSION: NOT_YET,
    Feature.BUFFERING: NOT_YET,
    Feature.WEBSOCKET: _LAST_HOP,
    Feature.STATUSES: _ANSWER,
    Feature.RATE_LIMIT: NOT_YET,
    Feature.CONCURRENCY: NOT_YET,
    Feature.MAX_BODY: NOT_YET,
    Feature.ROUTE_ACCESS: NOT_YET,
    Feature.TIMEOUT_CONNECT: emulated("the lbgen plugin's dialer on L7 routes; native on L4 routes"),
    Feature.TIMEOUT_RESPONSE: emulated("the lbgen plugin's transport waits no longer"),
    Feature.TIMEOUT_IDLE: emulated("the lbgen plugin watches bodies and tunnels; Traefik has no idle time"),
    Feature.TIMEOUT_REQUEST: NOT_YET,
    Feature.RETRIES: NOT_YET,
    Feature.RETRY_BUDGET: refused("Traefik does not count retries against active requests"),
    Feature.ROUND_ROBIN: NATIVE,
    Feature.LEAST_CONNECTIONS: emulated("the lbgen plugin counts requests; Traefik's p2c compares two endpoints only"),
    Feature.LEAST_CONNECTIONS_WEIGHTED: emulated("the lbgen plugin counts requests for each endpoint's weight"),
    Feature.RANDOM: NOT_YET,
    Feature.SOURCE_HASH: NATIVE,
    Feature.SOURCE_HASH_WEIGHTED: NATIVE,
    Feature.HASH: NOT_YET,
    Feature.WEIGHTS: NATIVE,
    Feature.DRAIN: NATIVE,
    Feature.BACKUP: NOT_YET,
    Feature.ENDPOINT_NAMES: emulated(
        "the lbgen plugin asks for the addresses again every 5 seconds; native on L4 routes"
    ),
    Feature.ENDPOINT_IPV6: NATIVE,
    Feature.HEALTH_ACTIVE: NOT_YET,
    Feature.HEALTH_PASSIVE: NOT_YET,
    Feature.KEEPALIVE: emulated("the lbgen plugin's transport keeps that many idle connections for each endpoint"),
    Feature.MAX_PER_ENDPOINT: NOT_YET,
    Feature.QUEUE: NOT_YET,
    Feature.SLOW_START: refused("Traefik has no slow start"),
    Feature.STICKY: NOT_YET,
    Feature.POOL_TLS: NOT_YET,
    Feature.POOL_HTTP2: NOT_YET,
    Feature.POOL_GRPC: NOT_YET,
    Feature.PROXY_PROTOCOL_OUT: NOT_YET,
    Feature.ACCESS_LOG: NOT_YET,
    Feature.ESCAPE_HATCH: NOT_YET,
    Feature.NFT_DIRECT: refused("direct routing is nftables' own"),
}

SUPPORT: dict[str, dict[Feature, Verdict]] = {"3.7": _SUPPORT}

_L4_IDLE = approximate("Traefik never closes a silent TCP connection, whatever the idle time")


def objections(plan: Plan) -> Iterator[Objection]:
    """Places of `plan` that Traefik honours otherwise than its features say."""
    level4 = {rule.route for listener in plan.listeners for rule in listener.l4_rules}
    for route in plan.routes:
        if route.name in level4 and isinstance(route.action, Forward) and route.action.timeouts.idle:
            yield Objection(_L4_IDLE, f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
