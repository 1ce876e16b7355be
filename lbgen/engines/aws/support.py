"""What Amazon's load balancers do with every feature, as their documentation says; nothing of it was tried here."""

from __future__ import annotations

from lbgen.engines.api import Verdict, VerdictTable, approximate, documented, refused
from lbgen.plan.features import Feature

_WAF = "AWS WAF in front of the load balancer"
_NO_CASE = approximate("the comparison ignores case")
_RULE = documented("a condition of a rule")

_VERDICTS: dict[Feature, Verdict] = {
    "": refused("a load balancer of AWS has no such setting"),
    # Listeners.
    "listener.l7": documented("a listener of an Application Load Balancer"),
    "listener.l4.tcp": documented("a listener of a Network Load Balancer"),
    "listener.l4.udp": documented("a listener of a Network Load Balancer; endpoints see the client's address"),
    "listener.tls": approximate(
        "certificates of ACM by ARN, a parameter for each; clients that ask for a name in none of them get the first, "
        "where other engines refuse the handshake"
    ),
    "listener.tls.acme": refused(
        "ACM issues certificates there: write `certificates`, and their ARN in `engines: { aws: { certificate_arns } }`"
    ),
    "listener.address": refused("its subnets give a load balancer its addresses; leave it out"),
    "listener.proxy_protocol": refused("it does not read PROXY headers"),
    "listener.limits": refused("its limits of heads are its own, and cannot be changed"),
    "listener.tls.no_sni": documented("the first certificate serves clients that send no name"),
    "listener.tls.client": documented("a trust store by ARN, a parameter; a certificate is required"),
    "listener.tls.curves": refused("a security policy names the curves, and is one of Amazon's"),
    "listener.tls.passthrough": documented("a TCP listener, which forwards TLS as it comes"),
    "listener.http2": documented("HTTP/2 by ALPN with TLS"),
    "listener.trusted_proxies": refused(
        "an Application Load Balancer takes the peer's address for the client's in rules, and appends to any "
        "X-Forwarded-For"
    ),
    "listener.access": approximate("the security group, whose rules only allow: others get no answer, and no 403"),
    "listener.timeouts": approximate(
        "`keepalive` is `client_keep_alive.seconds` of the load balancer, from 60 s to 7 days; slow heads and bodies "
        "are cut by its idle timeout"
    ),
    "paths.strict": documented("a first rule answers 400 to ambiguous paths, beside its own desync mitigation"),
    "headers_with_underscores.drop": documented("`routing.http.drop_invalid_header_fields.enabled`"),
    # Rules.
    "match.host": _RULE,
    "match.host.wildcard": documented("a wildcard that stands for any characters, dots among them"),
    "match.path.exact": _RULE,
    "match.path.prefix": documented("two values of a condition: the prefix, and what is below it"),
    "match.path.regex": approximate("a pattern of its own engine, without lookaround and classes of Unicode"),
    "match.methods": _RULE,
    "match.headers": _NO_CASE,
    "match.headers.regex": approximate("a pattern of its own engine, for one line of the header"),
    "match.headers.present": _RULE,
    "match.headers.absent": refused("a condition cannot be negated"),
    "match.query": _NO_CASE,
    "match.query.regex": refused("a condition on the query has wildcards and no patterns"),
    "match.query.present": _RULE,
    "match.query.absent": refused("a condition cannot be negated"),
    "match.cookies": approximate("a pattern for the whole Cookie header, in which any cookie of the name counts"),
    "match.cookies.regex": refused("a pattern for the whole Cookie header cannot end at the cookie"),
    "match.cookies.present": documented("a pattern for the Cookie header"),
    "match.cookies.absent": refused("a condition cannot be negated"),
    "match.sources": documented("a condition on the peer's address"),
    "match.unless": refused("a condition cannot be negated"),
    "match.sni": refused("a Network Load Balancer has one action for a listener"),
    "route.sources": refused("a Network Load Balancer has one action for a listener; `access` is its security group"),
    "route.priority": documented("the priorities of rules follow the order of trial"),
    # Actions.
    "route.forward": documented("a target group"),
    "route.forward.request_headers": refused("a rule rewrites Host and the URL, and no other field"),
    "route.forward.split": documented("target groups with weights"),
    "route.redirect": documented("a redirect action"),
    "route.respond": documented("a fixed response"),
    "route.rewrite": documented("a transform of the rule"),
    "route.access": documented("rules with the networks, and one that answers 403 to others"),
    "route.websocket": documented("upgraded connections are forwarded"),
    "route.request_headers": refused("a rule rewrites Host and the URL, and no other field"),
    "route.response_headers": refused("it sets a few fields by attributes of a listener, for all of its routes"),
    "route.rate_limit": refused(f"no limit of requests; {_WAF} has rate-based rules"),
    "route.auth": refused("it asks OpenID providers, which the topology does not name; leave it to the service"),
    "route.cors": refused(
        "it answers no preflight, and sets fields for all routes of a listener; leave it to the service"
    ),
    "route.compression": refused("it does not compress; Amazon CloudFront in front of it does"),
    "route.mirror": refused("it does not copy requests"),
    "route.concurrency": refused(f"no limit of requests at a time; {_WAF} has rate-based rules"),
    "route.buffering": refused("it holds no whole bodies for rules that forward to addresses"),
    "route.error_pages": refused("its error pages are its own; Amazon CloudFront in front of it replaces them"),
    "route.retries": refused("a failed request is not sent again; the client gets 502, 503 or 504"),
    "route.max_body": refused(f"no limit of bodies; {_WAF} can limit them"),
    "timeouts.connect": approximate("10 s, which cannot be changed"),
    "timeouts.response": approximate(
        "one idle timeout of the load balancer, from 1 to 4000 s: the longest `timeouts.idle` of its routes; 504"
    ),
    "timeouts.idle": approximate(
        "one idle timeout of an Application Load Balancer for all routes, from 1 to 4000 s: the longest; that of a TCP "
        "listener, from 60 to 6000 s; 350 s of TLS and 120 s of UDP listeners"
    ),
    # Pools.
    "pool.balance.round_robin": documented("`round_robin`; connections go by a hash of their addresses and ports"),
    "pool.balance.least_connections": documented("`least_outstanding_requests`"),
    "pool.balance.random": documented("`weighted_random`"),
    "pool.weights": refused("targets of a group have no weights; write a pool for each, and weights in `forward`"),
    "pool.weights.zero": documented("left out of the target group"),
    "pool.endpoint_names": approximate(
        "names are not resolved: the target group has no targets until somebody registers them, or attaches an Auto "
        "Scaling group, by its ARN in the outputs"
    ),
    "pool.endpoint_ipv6": documented("a target group of IPv6 addresses"),
    "pool.health.active": documented("health checks of the target group"),
    "pool.health.passive": refused("only health checks take a target out"),
    "pool.connections.keepalive": approximate("how many idle connections are kept is its own choice"),
    "pool.connections.keepalive_idle": approximate("how long idle connections are kept is its own choice"),
    "pool.sticky": approximate("its own cookie, AWSALB, which lasts 7 days where `ttl` is left out"),
    "pool.tls": approximate("targets are asked by TLS, and their certificates are not verified"),
    "pool.protocol.http2": documented("`ProtocolVersion: HTTP2`"),
    "pool.protocol.grpc": documented("`ProtocolVersion: GRPC`, with TLS on the listener"),
    "pool.proxy_protocol.l4": documented("PROXY protocol v2 of the target group"),
    "pool.slow_start": documented("`slow_start.duration_seconds`, from 30 to 900 s"),
    # All requests.
    "forwarded_headers": approximate(
        "X-Forwarded-For is appended to whatever the client sends, -Proto and -Port are set, -Host is not"
    ),
    "request_id": approximate("X-Amzn-Trace-Id instead of X-Request-Id"),
    "access_log": approximate("its own format, in a bucket of S3 that is a parameter; none without it"),
    "access_log.l4": approximate("of TLS listeners alone, its own format, in a bucket of S3 that is a parameter"),
    "metrics": approximate("its own metrics, in CloudWatch, with alarms for a topic that is a parameter"),
    "framing": documented("HTTP/1.1 and HTTP/2 to clients, made anew for targets"),
    "framing.malformed": approximate("refused or closed by its own list of desync mitigation"),
    "headers.hop_by_hop": documented("made anew for targets"),
    "headers.connection_nominated": approximate("not documented"),
    "statuses": documented("its own pages; 502, 503 and 504 for failed targets, and 460 and 463 in its logs alone"),
    "engines.verbatim": refused("a template has no place for text of its own; add to it what you deploy beside it"),
}

SUPPORT = VerdictTable(_VERDICTS)
