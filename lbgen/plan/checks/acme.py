"""Certificates by ACME: names that HTTP-01 can prove, and a listener on which its challenges arrive."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.plan.acme import CHALLENGES
from lbgen.plan.challenge_route import ChallengeRoute, domains, listener_hosts
from lbgen.plan.checks.context import Context, list_names, suggest_known

if TYPE_CHECKING:
    from lbgen.spec.listener import Acme

_HTTP = 80


def check(context: Context) -> None:
    """LB201 unknown pool, LB202 taken name, LB243 names that HTTP-01 cannot prove, LB244 challenges without answer."""
    model = context.model
    ordered = {name: x.tls.acme for name, x in model.listeners.items() if x.tls is not None and x.tls.acme is not None}
    challenges = ChallengeRoute(model)
    for name, acme in ordered.items():
        _check_names(context, name, acme)
        tier = (model.tiers or {}).get(model.listeners[name].tier or "")
        if tier is not None and tier.count > 1:
            message = f"{tier.count} replicas of a tier would each order this certificate"
            hint = "keep one replica, or obtain it elsewhere: certificates, and acme_challenge: { forward: POOL }"
            context.add("LB244", f"listeners.{name}.tls.acme", message, hint)
    written = model.acme_challenge
    if written is not None and written.forward is not None:
        if written.forward not in model.pools:
            message = f'there is no pool "{written.forward}"'
            context.add("LB201", "acme_challenge.forward", message, suggest_known(written.forward, model.pools))
        if ordered:
            message = f"the agent has to get the challenges of listener {list_names(ordered)}, and this pool would"
            context.add("LB244", "acme_challenge.forward", message, "keep either, tls.acme or forward", key=True)
    elif written is not None and written.directory is None and not ordered:
        message = "nothing here answers challenges"
        context.add("LB244", "acme_challenge", message, "write forward: POOL or directory: FOLDER", key=True)
    if challenges.pool is None:
        return
    for index, route in enumerate(model.routes):
        if route.name == CHALLENGES:
            message = f'"{CHALLENGES}" is the name of the route that lbgen makes for ACME'
            context.add("LB202", f"routes[{index}].name", message, "rename yours")
    if CHALLENGES in model.pools and challenges.has_agent:
        message = f'"{CHALLENGES}" is the name of the pool that lbgen makes for ACME'
        context.add("LB202", f"pools.{CHALLENGES}", message, "rename yours", key=True)
    if not challenges.listeners:
        field = next((f"listeners.{name}.tls.acme" for name in ordered), "acme_challenge")
        message = "no l7 listener without TLS is here, and HTTP-01 asks by plain HTTP on port 80"
        context.add("LB244", field, message, "write a listener for it: listeners: { http: { port: 80 } }", key=True)


def _check_names(context: Context, name: str, acme: Acme) -> None:
    names = domains(acme, listener_hosts(context.expanded, name))
    field = f"listeners.{name}.tls.acme"
    where = field if acme.domains is None else f"{field}.domains"
    if not names:
        message = "the routes of this listener name no host, so no name of the certificate follows"
        context.add("LB243", where, message, "write domains: [shop.example]", key=True)
    for each in names:
        if each.startswith("*."):
            message = f'HTTP-01 proves single names, and a route here has "{each}"'
            hint = "write domains without it, and take certificates for it from a client that does DNS-01"
            context.add("LB243", where, message, hint, key=True)
        elif _is_address(each):
            message = f'"{each}" is an address, and certificates here are for names'
            context.add("LB243", where, message, "write domains: [shop.example]", key=True)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def advise(context: Context) -> None:
    """LB297: the authority connects to port 80, from addresses that it does not publish."""
    challenges = ChallengeRoute(context.model)
    here = {name: context.model.listeners[name] for name in challenges.listeners}
    if here and not any(_HTTP in listener.every_port for listener in here.values()):
        first = next(iter(here))
        message = f"an ACME authority asks on port {_HTTP}, and challenges are answered on port {here[first].port}"
        hint = f"have what listens on port {_HTTP} forward to it, or write port: {_HTTP}"
        context.advise("LB297", f"listeners.{first}.port", message, hint)
    for name, listener in here.items():
        if listener.access is not None:
            message = "an ACME authority asks from addresses that it does not publish, and access may refuse them"
            hint = "write access on the routes instead, which challenges pass by"
            context.advise("LB297", f"listeners.{name}.access", message, hint)
