"""Listeners that share a port, lack a certificate or have no route, and fields without effect beside another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.challenge_route import ChallengeRoute
from lbgen.spec.listener import ListenerTls, Paths, TlsDefaults

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


_ALL_IPV4 = "0.0.0.0"  # noqa: S104  # compared with, not bound
_ALL = "::"


def check(context: Context) -> None:
    """LB103 TLS without certificates, LB205 no routes, LB208 port clash."""
    served = {name for names in context.expanded.listeners for name in names}
    served.update(ChallengeRoute(context.model).listeners)
    homeless = any(finding.code == "LB209" for finding in context.found)  # a route that may be meant for an l4 listener
    taken: dict[tuple[int, str, str | None], list[str]] = {}
    for name, listener in context.model.listeners.items():
        field = f"listeners.{name}"
        if name not in served and context.model.routes and not (homeless and listener.mode == "l4"):
            hint = f"name it in a route: listeners: [{name}]" if listener.mode == "l4" else "add a route, or drop it"
            context.add("LB205", field, "no route is attached to this listener", hint, key=True)
        tls = listener.tls
        if tls is not None and tls.mode == "terminate" and not tls.certificates and tls.acme is None:
            hint = "write certificates: [{ cert: FILE, key: FILE }] or acme: {}, or mode: passthrough on an l4 listener"
            context.add("LB103", f"{field}.tls", "TLS is terminated here without a certificate", hint)
        ends = tls is not None and (tls.certificates or tls.acme or tls.client or tls.min_version or tls.curves)
        if tls is not None and tls.mode == "passthrough" and ends:
            message = "with passthrough the endpoints terminate TLS: no certificate, version or policy applies here"
            context.add("LB207", f"{field}.tls", message, "keep mode: passthrough alone")
        transport = "udp" if listener.protocol == "udp" else "tcp"
        for port in listener.every_port:
            others = taken.setdefault((port, transport, listener.tier), [])  # tiers are other nodes
            other = next((x for x in others if _overlap(listener.address, context.model.listeners[x].address)), None)
            others.append(name)
            if other is not None:
                message = f'{transport} port {port} on {listener.address} is also that of listener "{other}"'
                where = f"{field}.port" if listener.ports is None else f"{field}.ports"
                context.add("LB208", where, message, "change the port or the address of one")
                break
            if listener.ports is not None and f"{name}-{port}" in context.model.listeners:
                message = f'a port of this range is named "{name}-{port}", as another listener is'
                context.add("LB208", f"{field}.ports", message, "name one of them otherwise")
                break
    _check_metrics(context)


def _check_metrics(context: Context) -> None:
    metrics = context.model.metrics
    if metrics is None:
        return
    for name, listener in context.model.listeners.items():
        same = metrics.port in listener.every_port and listener.protocol != "udp"
        if same and _overlap(listener.address, metrics.address):
            message = f'port {metrics.port} on {metrics.address} is that of listener "{name}"'
            context.add("LB208", "metrics.port", message, "take another port for the metrics, such as 9100")
            return


def _overlap(one: str, other: str) -> bool:
    """Whether two addresses cannot both be bound; `::` takes IPv4 as well."""
    if one == other or _ALL in (one, other):
        return True
    return _ALL_IPV4 in (one, other) and ":" not in one + other


def check_contradictions(context: Context) -> None:
    """LB228: exceptions of strict paths where paths are not strict, a version that the policy leaves out, names of a
    client's certificate, a time for idle connections where none is kept, a field that nobody is trusted to state the
    client in."""
    model = context.model
    for name, listener in model.listeners.items():
        if listener.mode == "l7" and listener.client_ip is not None and not listener.trusted_proxies:
            message = f"anybody can send {listener.client_ip.header}, so it is read from trusted proxies alone"
            hint = "write the proxies that set it: trusted_proxies: [10.0.0.0/8]"
            context.add("LB228", f"listeners.{name}.client_ip", message, hint, key=True)
    for field, paths in context.values(Paths).items():
        if paths.allow and paths.mode != "strict":
            message = f"allow lists exceptions of strict paths, and the mode here is {paths.mode}"
            context.add("LB228", f"{field}.allow", message, "drop it, or write mode: strict", key=True)
    for field, tls in (context.values(ListenerTls) | context.values(TlsDefaults)).items():
        if tls.policy == "modern" and tls.min_version == "1.2":
            message = "the policy modern is TLS 1.3 only, so no client can use 1.2"
            context.add("LB228", f"{field}.min_version", message, "drop it, or write policy: intermediate", key=True)
    for name, pool in model.pools.items():
        connections = pool.connections
        if connections is not None and connections.keepalive == 0 and connections.keepalive_idle is not None:
            message = "keepalive: 0 keeps no connection, so none is ever unused"
            context.add("LB228", f"pools.{name}.connections.keepalive_idle", message, "drop it", key=True)
        shown = None if pool.tls is None else pool.tls.certificate
        if shown is not None and shown.names is not None:
            message = "names select among the certificates of a listener; endpoints always get this one"
            context.add("LB228", f"pools.{name}.tls.certificate.names", message, "drop it", key=True)
