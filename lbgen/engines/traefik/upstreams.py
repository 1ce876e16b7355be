"""Pools in the plugin's configuration: endpoints, balance, health, and protocol to the endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.traefik.routes import build_key

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Plan, Pool
    from lbgen.plan.policy import ActiveHealth, Sticky
    from lbgen.plan.tls import PoolTls


def build_pool(plan: Plan, pool: Pool) -> Tagged:
    """The pool; the DNS servers are those of `plan`."""
    data: dict[str, Data] = {
        "name": pool.name,
        "balance": str(pool.balance),
        "keepalive": pool.keepalive,
        "keepaliveIdle": pool.keepalive_idle,
        "protocol": str(pool.protocol),
        "endpoints": [_endpoint(endpoint) for endpoint in pool.endpoints],
    }
    if plan.resolvers and any(not endpoint.is_ip for endpoint in pool.endpoints):
        data["resolvers"] = [_add_port(server) for server in plan.resolvers]
    if pool.hash_key is not None:
        data["hash"] = build_key(pool.hash_key)
    if pool.active is not None:
        data["active"] = _active(pool.active)
    if pool.passive is not None:
        data["passive"] = {"failures": pool.passive.failures, "eject": pool.passive.eject_for}
    if pool.max_per_endpoint is not None:
        data["max"] = pool.max_per_endpoint
    if pool.queue is not None:
        data["queue"] = {"size": pool.queue.size, "timeout": pool.queue.timeout}
    if pool.sticky is not None:
        data["sticky"] = {"cookie": pool.sticky.cookie, "line": _cookie_attributes(pool.sticky)}
    if pool.slow_start:
        data["slow"] = pool.slow_start
    if pool.tls is not None:
        data["tls"] = _tls(pool.tls)
    if pool.proxy_protocol is not None:
        data["proxy"] = pool.proxy_protocol
    return Tagged(pool.field, data)


def _endpoint(endpoint: Endpoint) -> Tagged:
    data: dict[str, Data] = {"host": endpoint.host, "port": str(endpoint.port), "weight": endpoint.weight}
    if endpoint.cookie_value:
        data["id"] = endpoint.cookie_value
    if not endpoint.is_ip:
        data["lookup"] = True
    if endpoint.backup:
        data["backup"] = True
    return Tagged(endpoint.field, data)


def _active(active: ActiveHealth) -> dict[str, Data]:
    return {
        "path": active.path or "",
        "port": "" if active.port is None else str(active.port),
        "interval": active.interval,
        "timeout": active.timeout,
        "fall": active.fall,
        "rise": active.rise,
        "statuses": [{"first": first, "last": last} for first, last in active.statuses],
    }


def _cookie_attributes(sticky: Sticky) -> str:
    """The attributes after the value of the cookie."""
    age = "" if sticky.ttl is None else f"; Max-Age={sticky.ttl}"
    return f"; Path=/{age}; HttpOnly; SameSite=Lax" + ("; Secure" if sticky.secure else "")


def _tls(tls: PoolTls) -> dict[str, Data]:
    data: dict[str, Data] = {"verify": tls.verify, "name": tls.server_name or ""}
    if tls.ca is not None:
        data["ca"] = tls.ca.path
    if tls.certificate is not None:
        data["cert"] = tls.certificate.cert.path
        data["key"] = tls.certificate.key.path
    return data


def _add_port(server: str) -> str:
    """A DNS server with its port, by default 53."""
    if server.startswith("["):
        return server if "]:" in server else f"{server}:53"
    if server.count(":") > 1:
        return f"[{server}]:53"
    return server if ":" in server else f"{server}:53"
