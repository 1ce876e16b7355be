"""A pool's endpoints -> `server` lines: address, weight, checks, limits, stickiness, TLS and protocol."""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import TYPE_CHECKING

from lbgen.engines.haproxy.retries import lone
from lbgen.engines.haproxy.statements import Line, Word, line
from lbgen.engines.text import Literal
from lbgen.plan.model import Balance, PoolProtocol
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.plan.model import Endpoint, Pool
    from lbgen.plan.policy import Retries

MAX_WEIGHT = 256
ALWAYS_UP = "unix@lbgen-up.sock"  # a listener of our own
NEVER = "24d"  # the longest time HAProxy counts
# The name for a server is made at each try to connect, with TLS or without: so the time of the last one is kept.
_BEGUN = "date(0,us),set-var(txn.sent)"
_NO_NAME = "field(2,:)"
# Places on the ring of endpoints come with weight; a few of them would share it out unevenly.
_RING = (Balance.RANDOM, Balance.HASH)


def weights(pool: Pool) -> list[int]:
    """The endpoints' weights as HAProxy takes them, 0 to 256 as a topology has them, too."""
    written = [endpoint.weight for endpoint in pool.endpoints]
    if pool.balance not in _RING:
        return written
    divisor = reduce(gcd, written) or 1
    reduced = [weight // divisor for weight in written]
    return [weight * (MAX_WEIGHT // max([*reduced, 1])) for weight in reduced]


def is_name(endpoint: Endpoint) -> bool:
    """Whether a DNS server has to be asked for it."""
    return not endpoint.is_ip and endpoint.host != "localhost"


@record
class Role:
    """What a backend is to its pool. `limited`: the topology says how many idle connections are kept; `tracked`:
    another backend with the same endpoints, which knows what is up ("" = this one finds out); `retries`: of its
    routes."""

    name: str
    l7: bool
    limited: bool
    tracked: str
    retries: Retries | None

    def clocked(self, pool: Pool) -> bool:
        """Whether a connection may begin later than its request comes here: after another try, or after a wait."""
        return self.l7 and (self.retries is not None or pool.max_per_endpoint is not None)


def server_lines(pool: Pool, role: Role) -> list[Line]:
    """One line for each endpoint, two for one that has to stand there twice."""
    alone = lone(role.retries, pool)
    numbered = list(enumerate(zip(pool.endpoints, weights(pool), strict=True), 1))
    named = [(f"s{n}", f"{role.tracked}/s{n}" if role.tracked else "", *each) for n, each in numbered]
    named += [(f"s{n}:again", f"{role.tracked or role.name}/s{n}", e, w) for n, (e, w) in numbered if e is alone]
    lines = []
    for name, followed, endpoint, weight in named:
        words: list[str | Word] = [f"server {name}", endpoint.authority, f"weight {weight}"]
        if is_name(endpoint):
            words.append("resolvers dns init-addr none")
        elif not endpoint.is_ip:  # no DNS server needs to know that name
            words[1] = f"127.0.0.1:{endpoint.port}"
        if role.limited:
            words.append(f"pool-max-conn {pool.keepalive}")
        words += _more(pool, endpoint, role, followed)
        lines.append(line(endpoint.field, *words))
    return lines


def _more(pool: Pool, endpoint: Endpoint, role: Role, followed: str) -> list[str | Word]:
    words: list[str | Word] = []
    if endpoint.backup:
        words.append("backup")
    if pool.max_per_endpoint is not None:
        words.append(f"maxconn {pool.max_per_endpoint}")
    if pool.sticky is not None and role.l7:
        words.append(f"cookie {endpoint.cookie_value}")
    if pool.proxy_protocol is not None:
        words.append("send-proxy" if pool.proxy_protocol == "v1" else "send-proxy-v2")
    words += _transport(pool, endpoint, role)
    checks = _checks(pool, role)
    words += [f"track {followed}"] if checks and followed else checks
    if pool.slow_start:
        words.append(f"slowstart {pool.slow_start}ms")
    return words


def _transport(pool: Pool, endpoint: Endpoint, role: Role) -> list[str | Word]:
    """TLS and HTTP version. HAProxy looks for a key beside the certificate, as `<certificate>.key`."""
    http2 = pool.protocol is not PoolProtocol.HTTP1
    tls = pool.tls
    words: list[str | Word] = []
    if tls is None:
        words += ["proto h2"] if http2 else []
        words += [f"sni {_BEGUN},{_NO_NAME}"] if role.clocked(pool) else []
        return words
    words.append("ssl ssl-min-ver TLSv1.2")
    name = tls.server_name or (None if endpoint.is_ip else endpoint.host)
    if not tls.verify:
        words.append("verify none")
    else:
        words += ["verify required ca-file", Literal(tls.ca.path) if tls.ca is not None else "@system-ca"]
    if name is None and role.clocked(pool):
        words.append(f"sni {_BEGUN},{_NO_NAME}")
    if name is not None:
        words.append(f"sni {_BEGUN},bool,iif({name},{name})" if role.clocked(pool) else f"sni str({name})")
        words.append(f"check-sni {name}" if pool.active else "")
        words.append(f"verifyhost {name}" if tls.verify else "")
    if tls.certificate is not None:
        words += ["crt", Literal(tls.certificate.cert.path)]
    if http2:
        words.append("alpn h2")
    return [word for word in words if word != ""]


def _checks(pool: Pool, role: Role) -> list[str | Word]:
    active, passive = pool.active, pool.passive
    words: list[str | Word] = []
    if active is not None:
        words.append(f"check inter {active.interval}ms fall {active.fall} rise {active.rise}")
        if active.port is not None:
            words.append(f"port {active.port}")
        if pool.tls is not None:
            words.append("check-ssl")
        if pool.proxy_protocol is not None:
            words.append("check-send-proxy")
        if pool.protocol is not PoolProtocol.HTTP1:
            # A check that only connects would take over the protocol of requests, which HAProxy refuses.
            spoken = "check-alpn h2" if pool.tls is not None else "check-proto h2"
            words.append(spoken if active.path is not None else "check-proto none")
    elif passive is not None and not role.l7:
        # Nobody is checked: a check that always passes is the timer that lets an endpoint in again.
        out = f"{passive.eject_for}ms"
        words.append(f"check addr {ALWAYS_UP} inter {NEVER} fastinter {out} downinter {out} fall 1 rise 1")
    elif pool.slow_start:
        words.append(f"check addr {ALWAYS_UP} inter {NEVER}")
    if passive is not None and not role.l7:
        words.append(f"observe layer4 error-limit {passive.failures} on-error mark-down")
    return words


def check_lines(pool: Pool) -> list[Line]:
    """Statements of a backend that say how its endpoints are checked."""
    active = pool.active
    if active is None:
        return []
    field = f"{pool.field}.health.active"
    lines = [line(field, f"timeout check {active.timeout}ms")]
    if active.path is None:
        return lines
    expected = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in active.statuses)
    return [
        *lines,
        line(field, "option httpchk"),
        line(
            field,
            "http-check send meth GET uri",
            Literal(active.path),
            f"ver HTTP/1.1 hdr Host {pool.endpoints[0].authority}",
        ),
        line(field, f"http-check expect status {expected}"),
    ]
