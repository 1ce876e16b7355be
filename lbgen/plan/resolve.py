"""Resolves a topology into a plan: names, defaults, the order of rules, uses of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, LbgenError, UsageError
from lbgen.plan import resolve_policies
from lbgen.plan.acme import AcmeCertificate
from lbgen.plan.auth import Auth
from lbgen.plan.challenge_route import ChallengeRoute, domains, listener_hosts, resolve_acme
from lbgen.plan.checks import find_errors, find_problems
from lbgen.plan.error_pages import resolve_pages
from lbgen.plan.expand import ExpandedTopology, expand
from lbgen.plan.feature_uses import default_uses, explicit_uses
from lbgen.plan.files import Files
from lbgen.plan.inheritance import with_inherited
from lbgen.plan.model import (
    Balance,
    ContainerLimits,
    Endpoint,
    EngineOptions,
    Forward,
    Listener,
    Metrics,
    Mode,
    Plan,
    Pool,
    PoolProtocol,
    Protocol,
    Redirect,
    Respond,
    Rewrite,
    Route,
    Target,
    Use,
)
from lbgen.plan.overlay import with_real_endpoints
from lbgen.plan.path_conditions import PrefixPath
from lbgen.plan.pool import KEEPALIVE, KEEPALIVE_IDLE
from lbgen.plan.precedence import group, host_tables
from lbgen.plan.resolve_auth import Auths
from lbgen.plan.spans import Spans
from lbgen.plan.sticky import cookie_key, cookie_value
from lbgen.plan.tier_links import with_replica_endpoints
from lbgen.plan.values import read_value
from lbgen.spec.find_values import find_values
from lbgen.spec.listener import ClientIp
from lbgen.spec.load import Topology
from lbgen.spec.model import EngineBlock, ForwardedHeaders, TopologyModel
from lbgen.spec.values import FilePath

if TYPE_CHECKING:
    from lbgen.spec import pool as written_pool
    from lbgen.spec import route as written_route

HSTS = "strict-transport-security"


def plan(topology: Topology) -> Plan:
    """The plan of `topology`: names resolved, defaults written out, rules in the order of trial.

    Times are in milliseconds, sizes in bytes. Raises LbgenError with all errors between objects (LB2xx), UsageError
    LB306 for a topology of tiers, whose plans `lbgen.tiers` gives.
    """
    topology = with_inherited(topology)
    expanded = expand_checked(with_replica_endpoints(topology))
    if topology.model.tiers is not None:
        message = "a tiered topology has a plan for each tier, and a single plan is needed here"
        raise UsageError(
            Diagnostic("LB306", message, topology.span("tiers"), "tiers", "take the plans from lbgen.tiers(topology)")
        )
    return build_plan(topology, expanded)


def expand_checked(topology: Topology) -> ExpandedTopology:
    """Check `topology`, which has what its routes and pools inherit, and expand its routes and that of challenges.

    Raises LbgenError with all cross-object errors.
    """
    expanded = expand(topology.model)
    if errors := find_errors(topology, expanded):
        raise LbgenError(errors)
    return ChallengeRoute(topology.model).add_to(expanded)


def check(topology: Topology, *, ignore: tuple[str, ...] = ()) -> tuple[Diagnostic, ...]:
    """All findings about `topology`, errors to advice, by place, as `lbgen check --no-engines` prints them.

    The files that it names must exist. `ignore`: codes of warnings and advice to leave out. Raises nothing: what is
    wrong is in the result.
    """
    return findings(topology, files=True, ignore=ignore)


def findings(topology: Topology, *, files: bool = False, ignore: tuple[str, ...] = ()) -> tuple[Diagnostic, ...]:
    """All findings about how the objects of `topology` fit together, errors to advice, sorted by place.

    With `files` the files it names must exist: LB211. `ignore` are codes of warnings and advice to leave out.
    """
    topology = with_replica_endpoints(with_inherited(topology))
    found = find_problems(topology, expand(topology.model), files=files, ignore=ignore)
    return tuple(sorted(found, key=lambda d: (d.span, d.code, d.field)))


def build_plan(topology: Topology, expanded: ExpandedTopology) -> Plan:
    """The plan of the topology's listeners; routes without a listener here belong to another tier."""
    model, used = expanded.model, expanded.used_pools
    files = Files(topology)
    issued = {
        name: files.issued_certificate(x.tls.acme, domains(x.tls.acme, listener_hosts(expanded, name)), name)
        for name, x in model.listeners.items()
        if x.tls is not None and x.tls.acme is not None
    }
    uses = (
        *(Use(f, field) for f, field in dict.fromkeys(explicit_uses(expanded, topology.wrote))),
        *(Use(f, field, default=True) for f, field in default_uses(expanded, topology.wrote)),
    )
    auths = Auths(topology)
    routes = tuple(_route(topology, expanded, i, route, auths.of_route(i, route)) for i, route in _here(expanded))
    pools = tuple(_pool(name, pool, files, topology) for name, pool in model.pools.items() if name in used)
    found = Plan(
        name=model.name,
        listeners=tuple(
            each for x in _listeners(model, expanded, files, topology.base, issued) for each in _each_port(model, x)
        ),
        pools=(*pools, *auths.pools),
        routes=routes,
        uses=uses,
        accept=tuple(dict.fromkeys(_accepted(model))),
        engines=tuple((name, _options(model, block)) for name, block in model.engines.items()),
        resolvers=tuple(model.resolvers or ()),
        containers=_containers(model),
        networks=() if model.containers is None else tuple(dict.fromkeys(model.containers.networks)),
        spans=Spans(
            lambda: [(field, topology.span(field)) for field in _placed_fields(topology)], topology.marks.origin
        ),
        use_spans=Spans(lambda: [(use.field, topology.span(use.field)) for use in uses]),
        metrics=None if model.metrics is None else Metrics(model.metrics.address, model.metrics.port),
        acme=resolve_acme(topology, model, tuple(issued.values())),
    )
    return with_real_endpoints(found, {x.name for x in found.pools if x.stand_ins is False})


def _here(expanded: ExpandedTopology) -> Iterator[tuple[int, written_route.Route]]:
    return ((index, route) for index, route in enumerate(expanded.model.routes) if expanded.listeners[index])


def _placed_fields(topology: Topology) -> list[str]:
    """Objects and the fields of routes and engines; deeper fields use the place of their parent."""
    model = topology.model
    fields = [place for name in model.listeners for place in (f"listeners.{name}", f"listeners.{name}.port")]
    fields += [place for place, _ in find_values(model, FilePath)]
    for name, pool in model.pools.items():
        fields += [f"pools.{name}", *(f"pools.{name}.endpoints[{i}]" for i in range(len(pool.endpoints)))]
    for index, route in enumerate(model.routes):
        fields += [f"routes[{index}]", *(f"routes[{index}].{key}" for key in sorted(route.model_fields_set))]
        fields += [f"routes[{index}].match[{i}]" for i in range(len(route.match or ()))]
    for name, block in model.engines.items():
        fields += [f"engines.{name}.{key}" for key in sorted(block.model_fields_set)]
        fields += [f"engines.{name}.certificate_arns.{listener}" for listener in block.certificate_arns or ()]
    return fields


def _each_port(model: TopologyModel, listener: Listener) -> Iterator[Listener]:
    """`listener`, or one for each port of its range."""
    if (written := model.listeners[listener.name].ports) is None:
        yield listener
        return
    for name, port in zip(_names(model, listener.name), written.ports, strict=True):
        yield replace(listener, name=name, port=port)


def _names(model: TopologyModel, listener: str) -> tuple[str, ...]:
    """The names of a listener in the plan: one for each port of its range."""
    written = model.listeners[listener].ports
    return (listener,) if written is None else tuple(f"{listener}-{port}" for port in written.ports)


def _listeners(
    model: TopologyModel, expanded: ExpandedTopology, files: Files, base: Path, issued: Mapping[str, AcmeCertificate]
) -> Iterator[Listener]:
    pages = resolve_pages(model.error_pages, base, "error_pages")
    on = {route.name: expanded.listeners[index] for index, route in enumerate(model.routes)}
    rules = group((name, rule) for rule in expanded.rules for name in on[rule.route])
    l4_rules = group((name, rule) for rule in expanded.l4_rules for name in on[rule.route])
    headers = model.forwarded_headers or ForwardedHeaders()
    for name, listener in model.listeners.items():
        l7 = listener.mode == "l7"
        yield Listener(
            name=name,
            address=listener.address,
            port=listener.port,
            mode=Mode(listener.mode),
            protocol=Protocol(listener.protocol or "tcp"),
            field=f"listeners.{name}",
            hosts=host_tables(rules.get(name, ())) if l7 else (),
            l4_rules=() if l7 else tuple(l4_rules.get(name, ())),
            trusted_proxies=tuple(listener.trusted_proxies),
            client_header=_client_header(listener.client_ip),
            forwarded_headers=headers.x_forwarded,
            real_ip=headers.real_ip,
            forwarded=headers.forwarded,
            request_id=model.request_id is not False,
            timeouts=resolve_policies.client_timeouts(listener.timeouts, model.client_timeouts),
            tls=resolve_policies.listener_tls(
                listener.tls, model.tls, f"listeners.{name}.tls", files, issued.get(name)
            ),
            http2=listener.tls is not None and l7 if listener.http2 is None else listener.http2,
            proxy_protocol=listener.proxy_protocol is not None,
            max_connections=listener.max_connections,
            paths=resolve_policies.paths(listener.paths, model.paths),
            underscores=(listener.headers_with_underscores or model.headers_with_underscores) == "pass",
            access=resolve_policies.access(listener.access),
            limits=resolve_policies.limits(listener.limits, model.limits) if l7 else resolve_policies.limits(),
            access_log=listener.protocol != "udp" and model.access_log == "json",
            metrics=model.metrics is not None,
            error_pages=(*resolve_pages(listener.error_pages, base, f"listeners.{name}.error_pages"), *pages)
            if l7
            else (),
            address_written="address" in listener.model_fields_set,
        )


def _client_header(written: ClientIp | None) -> str | None:
    return None if written is None or written.header == "x-forwarded-for" else written.header


def _accepted(model: TopologyModel) -> Iterator[str]:
    """`ENGINE:FEATURE`, or `FEATURE` where it holds for all engines."""
    for engine, features in model.accept.items():
        yield from features if engine == "all" else (f"{engine}:{feature}" for feature in features)


def _options(model: TopologyModel, block: EngineBlock) -> EngineOptions:
    written = ((name, arns) for name, arns in (block.certificate_arns or {}).items() if name in model.listeners)
    arns = tuple((each, tuple(arns)) for name, arns in written for each in _names(model, name))
    return EngineOptions(block.version, block.forwarding, tuple(block.verbatim.items()), block.device, arns)


def _containers(model: TopologyModel) -> ContainerLimits:
    said, default = model.containers, ContainerLimits()
    if said is None:
        return default
    return ContainerLimits(said.memory or default.memory, said.pids or default.pids)


def _pool(name: str, pool: written_pool.Pool, files: Files, topology: Topology) -> Pool:
    method = "round_robin" if pool.balance is None else pool.balance.method or "hash"
    connections = pool.connections
    keepalive = None if connections is None else connections.keepalive
    idle = None if connections is None else connections.keepalive_idle
    return Pool(
        name=name,
        balance=Balance(method),
        endpoints=tuple(_endpoints(name, pool, topology)),
        field=f"pools.{name}",
        keepalive=KEEPALIVE if keepalive is None else keepalive,
        keepalive_idle=KEEPALIVE_IDLE if idle is None else idle,
        hash_key=resolve_policies.hash_key(pool.balance),
        active=resolve_policies.active_health(pool.health),
        passive=resolve_policies.passive_health(pool.health),
        max_per_endpoint=None if connections is None else connections.max_per_endpoint,
        queue=resolve_policies.queue(connections),
        sticky=resolve_policies.sticky(pool.sticky),
        tls=resolve_policies.pool_tls(pool.tls, f"pools.{name}.tls", files),
        protocol=PoolProtocol(pool.protocol or "http1"),
        proxy_protocol=pool.proxy_protocol,
        slow_start=pool.slow_start or 0,
        leads_to=None if pool.tier is None else (pool.tier, pool.listener or ""),
        stand_ins=pool.stand_ins,
    )


def _endpoints(name: str, pool: written_pool.Pool, topology: Topology) -> Iterator[Endpoint]:
    key = None if pool.sticky is None else cookie_key(pool.sticky, topology)
    for index, written in enumerate(pool.endpoints):
        _, address = written.place
        made = Endpoint(
            address.host,
            address.port,
            written.weight,
            f"pools.{name}.endpoints[{index}]",
            address.is_ip,
            written.backup,
            in_cluster=written.service is not None,
        )
        # The cookie follows the written address: a runtime may move the endpoint, and clients keep their cookies.
        yield made if key is None else replace(made, cookie_value=cookie_value(key, made.authority))


def _route(
    topology: Topology, expanded: ExpandedTopology, index: int, route: written_route.Route, auth: Auth | None
) -> Route:
    model, l4 = expanded.model, expanded.is_l4(index)
    field = f"routes[{index}]"
    action: Forward | Redirect | Respond
    if route.redirect is not None:
        action = _redirect(route.redirect)
    elif route.respond is not None:
        action = _respond(route.respond)
    else:
        action = Forward(
            tuple(
                Target(to.pool, to.weight, resolve_policies.edits(to.request_headers), f"{field}.forward[{i}]")
                for i, to in enumerate(route.forward or ())
            ),
            resolve_policies.forward_timeouts(route.timeouts, model.timeouts),
            None if route.rewrite is None else _rewrite(route.rewrite),
            resolve_policies.retries(route.retries),
            resolve_policies.buffering(route.buffering, None if l4 else model.buffering),
            resolve_policies.mirrors(route.mirror, field),
        )
    return Route(
        route.name,
        index,
        action,
        field,
        resolve_policies.edits(route.request_headers),
        resolve_policies.edits(route.response_headers, _default_headers(model, expanded, index)),
        access=resolve_policies.access(route.access),
        auth=auth,
        rate_limit=resolve_policies.rate_limit(route.rate_limit),
        concurrency=resolve_policies.concurrency(route.concurrency),
        max_body=model.max_body if route.max_body is None and route.forward is not None and not l4 else route.max_body,
        cors=resolve_policies.cors(route.cors),
        compression=resolve_policies.compression(route.compression),
        error_pages=resolve_pages(route.error_pages, topology.base, f"{field}.error_pages"),
    )


def _rewrite(rewrite: written_route.Rewrite) -> Rewrite:
    return Rewrite(None if rewrite.prefix is None else PrefixPath.of(rewrite.prefix).value, rewrite.path, rewrite.host)


def _default_headers(model: TopologyModel, expanded: ExpandedTopology, index: int) -> written_route.HeaderEdits | None:
    """The topology's response_headers for a route; HSTS only where all of its listeners speak TLS (RFC 6797 7.2)."""
    edits = None if expanded.is_l4(index) else model.response_headers
    if edits is None or all(model.listeners[name].tls is not None for name in expanded.listeners[index]):
        return edits
    return edits.model_copy(update={"set": {n: v for n, v in edits.set.items() if n != HSTS}})


def _redirect(redirect: written_route.Redirect) -> Redirect:
    return Redirect(
        redirect.status,
        redirect.scheme,
        None if redirect.host is None else read_value(redirect.host),
        redirect.port,
        None if redirect.path is None else read_value(redirect.path),
        None if redirect.prefix is None else PrefixPath.of(redirect.prefix).value,
        None if redirect.to is None else read_value(redirect.to),
    )


def _respond(respond: written_route.Respond) -> Respond:
    headers = dict(respond.headers)
    if respond.status not in (204, 304):
        headers.setdefault("content-type", "text/plain")
    values = tuple((name, read_value(value)) for name, value in headers.items())
    return Respond(respond.status, read_value(respond.body), values)
