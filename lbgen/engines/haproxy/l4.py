"""L4 listeners: their access lists, and the backend of a connection by server name and source."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.haproxy.limits import denied
from lbgen.engines.haproxy.listeners import bind
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.statements import Acl, Block, Statement, acl, block, statement
from lbgen.engines.haproxy.timeouts import duration
from lbgen.engines.haproxy.upstreams import Backends
from lbgen.engines.haproxy.view import L4Frontend
from lbgen.engines.text import Atom
from lbgen.plan.model import Forward, L4Rule, Listener, Plan

SNI = "sess.sni"  # for the log
_DENIED = "access:denied"


def l4_frontend(listener: Listener, plan: Plan, backends: Backends, maps: Maps) -> L4Frontend:
    """Rules stand in order of precedence; HAProxy closes a connection that matches none."""
    actions = [plan.route(rule.route).action for rule in listener.l4_rules]
    idles = [action.timeouts.idle for action in actions if isinstance(action, Forward)]
    statements = []
    if listener.access is not None:
        field = f"{listener.field}.access"
        for acls in denied(listener.access, "src", "access", field, maps):
            statements.append(statement("tcp-request session reject", when=acls, origin=field))
    terminates = listener.tls is not None and not listener.tls.passthrough
    if any(rule.sni for rule in listener.l4_rules) and not terminates:
        hello = [acl("req.ssl_hello_type 1")]
        log_sni = statement(f"tcp-request content set-var({SNI}) req.ssl_sni", when=hello, origin=listener.field)
        statements += [
            statement("tcp-request inspect-delay 5s", origin=listener.field),
            *([log_sni] if listener.logs else []),
            statement("tcp-request content accept", when=hello, origin=listener.field),
        ]
    elif terminates and listener.logs:
        statements.append(statement(f"tcp-request session set-var({SNI}) ssl_fc_sni", origin=listener.field))
    sni = "ssl_fc_sni,lower" if terminates else "req.ssl_sni,lower"
    for rule in listener.l4_rules:
        statements += _rule_statements(rule, sni, plan, backends, maps)
    return L4Frontend(
        bind=bind(listener, maps),
        idle=Atom(duration(0 if 0 in idles else max(idles, default=0))),
        statements=tuple(statements),
    )


def denied_backend(plan: Plan) -> tuple[Block, ...]:
    """The backend for clients that the access list of a route denies, where there is such a list."""
    if not any(plan.route(rule.route).access for listener in plan.listeners for rule in listener.l4_rules):
        return ()
    title = "Closes connections of clients that the access list of an L4 route denies"
    return (block(statement(f"backend {_DENIED}"), "tcp", [statement("tcp-request content reject")], title),)


def _rule_statements(rule: L4Rule, sni: str, plan: Plan, backends: Backends, maps: Maps) -> Iterator[Statement]:
    route = plan.route(rule.route)
    action = route.action
    if not isinstance(action, Forward):
        raise ValueError(f"route {rule.route} does not forward")
    matches = []
    if rule.sni is not None:
        matches.append(acl(f"{sni} -m end .{rule.sni.name}" if rule.sni.wildcard else f"{sni} -m str {rule.sni.name}"))
    if rule.sources:
        matches.append(maps.is_within("src", rule.sources, f"{rule.id}.sources", rule.field))
    if route.access is not None:
        field = f"{route.field}.access"
        for acls in denied(route.access, "src", f"{rule.id}.access", field, maps):
            yield _use_backend(_DENIED, [*matches, *acls], field)
        if route.access.allow == ():
            return
    left = sum(target.weight for target in action.targets)
    for target in action.targets:
        if not target.weight:
            continue
        name = backends.name(plan.pool(target.pool), action.timeouts, l7=False)
        draw = [acl(f"rand({left}) lt {target.weight}")] if target.weight != left else []
        left -= target.weight
        yield _use_backend(name, [*matches, *draw], target.field)
        if not draw:
            break


def _use_backend(backend: str, acls: list[Acl], field: str) -> Statement:
    return statement("use_backend" if acls else "default_backend", backend, when=acls, origin=field)
