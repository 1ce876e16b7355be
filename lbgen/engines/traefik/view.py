"""What a feature contributes to Traefik's configuration, and the parts of a plan that it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import Objection
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Endpoint, Forward, Listener, Mode, Plan, Pool, Route
from lbgen.plan.path_conditions import Path

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    Fields = dict[str, Data]

_BESIDE = 2  # ports from a listener's to the internal one, where no runtime gives that: 8082 for 8080
CAN = "; nginx, HAProxy and Envoy can"  # ends a verdict


class HttpRoute(Struct, frozen=True, eq=False):
    """A route for the requests of a rule with the path `matched`. `identities`: the fields that no client of its
    listeners can send; `asked`: the router for each way to ask a service. `answered`: something before its service may
    answer by itself."""

    plan: Plan
    route: Route
    forward: Forward | None
    matched: Path
    listener: Listener
    identities: Iterable[str]
    asked: Mapping[ForwardAuth, str]
    answered: bool = False


class Contributor(Struct, frozen=True, eq=False):
    """A feature: what it adds to each part of Traefik's configuration, and its objections; None where it adds nothing.

    Contributors are asked in the order of `features.FEATURES`.
    """

    entry_point: Callable[[Listener, str], Fields] | None = None  # of an L7 listener, by version
    http: Callable[[Listener, str], Fields] | None = None  # `http` of the entry point
    by_client: Callable[[Plan, Route], bool] | None = None  # whether a route depends on its clients' addresses
    middlewares: Callable[[HttpRoute], Iterable[tuple[str, Fields]]] | None = None  # kinds and contents; empty: none
    answers: bool = False  # whether these answer by themselves
    balancer: Callable[[Pool, Sequence[Endpoint]], Fields] | None = None  # `loadBalancer` of the endpoints that serve
    objections: Callable[[Plan, str], Iterable[Objection]] | None = None  # by version


def internal_port(plan: Plan) -> int:
    """The port of the entry point for this host alone: that of the runtime, else one near a listener's."""
    if plan.admin_port is not None:
        return plan.admin_port
    taken = {listener.port for listener in plan.listeners}
    port = min(taken) + _BESIDE
    while port in taken:
        port += 1
    return port


def http_listeners(plan: Plan) -> list[Listener]:
    """The L7 listeners."""
    return [listener for listener in plan.listeners if listener.mode is Mode.L7]


def find_routes(plan: Plan, listener: Listener) -> list[Route]:
    """The routes of an L7 listener, each once, in the order of their rules."""
    names = dict.fromkeys([rule.route for table in listener.hosts for rule in table.rules])
    return [plan.route(name) for name in names]


def http_routes(plan: Plan) -> list[Route]:
    """The routes that serve HTTP, in the order of the plan."""
    served = {rule.route for x in http_listeners(plan) for table in x.hosts for rule in table.rules}
    return [route for route in plan.routes if route.name in served]


def http_pools(plan: Plan) -> list[Pool]:
    """The pools of those."""
    actions = [route.action for route in http_routes(plan) if isinstance(route.action, Forward)]
    used = {target.pool for action in actions for target in action.targets}
    used |= {mirror.pool for action in actions for mirror in action.mirrors}
    used |= {route.auth.pool for route in http_routes(plan) if isinstance(route.auth, ForwardAuth)}
    return [pool for pool in plan.pools if pool.name in used]
