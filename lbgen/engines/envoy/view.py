"""What a feature contributes to Envoy's configuration, and the parts of a plan that it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from lbgen.engines.api import Objection
from lbgen.plan.model import Endpoint, Forward, Listener, Mode, Plan, Pool, Route, Rule

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    Fields = dict[str, Data]


class ClusterOptions(NamedTuple):
    """Options of a route that belong to the cluster: connect timeout in ms, the percentage of requests that may be
    retries, and whether the requests are copies, or those of ext_authz to the service of `auth`."""

    connect: int
    budget: float | None = None
    mirrored: bool = False
    auth: bool = False

    def __str__(self) -> str:
        budget = "" if self.budget is None else f"-{self.budget:g}%"
        return f"{self.connect}ms{budget}{'-copies' if self.mirrored else ''}{'-auth' if self.auth else ''}"


class Clusters(Struct, frozen=True, eq=False):
    """`options`: those of each pool, by connect timeout. `l4`, `l7`: pools of L4 and of L7 routes."""

    pools: dict[str, Pool]
    options: dict[str, tuple[ClusterOptions, ...]]
    l4: frozenset[str]
    l7: frozenset[str]

    def target_pools(self, route: Route) -> list[Pool]:
        """The pools to which the route forwards, each once."""
        targets = route.action.targets if isinstance(route.action, Forward) else ()
        if len(targets) == 1:
            return [self.pools[targets[0].pool]]
        return [self.pools[name] for name in dict.fromkeys(target.pool for target in targets)]

    def name(self, pool: str, options: ClusterOptions) -> str:
        """The name of the cluster for `pool` with these options; the pool's own name if there is only one."""
        return pool if len(self.options[pool]) < 2 else f"{pool}@{options}"


def pool_name(cluster: str) -> str:
    """The pool of a cluster."""
    return cluster.partition("@")[0]


def cluster_options(forward: Forward) -> ClusterOptions:
    """The options of a route for the pools to which it forwards."""
    return ClusterOptions(forward.timeouts.connect, None if forward.retries is None else forward.retries.budget)


class HttpListener(Struct, frozen=True, eq=False):
    """An L7 listener, with the routes of its rules, each once. `by_client`: behind trusted proxies, some feature asks
    for the client's address."""

    plan: Plan
    version: str
    listener: Listener
    routes: tuple[Route, ...]
    clusters: Clusters
    by_client: bool


class HttpRoute(Struct, frozen=True, eq=False):
    """One of the Envoy routes of a rule: for those of its requests that meet `headers` and `cookies`.

    `forward`: the route's action, with the targets of these requests. `tunnel`: they are WebSocket handshakes, whose
    bodies have no end. `resent`: all causes are retried, not failed connects alone.
    """

    on: HttpListener
    rule: Rule
    route: Route
    forward: Forward | None
    headers: tuple[Data, ...] = ()
    cookies: tuple[Data, ...] = ()
    tunnel: bool = False
    resent: bool = True


class Cluster(Struct, frozen=True, eq=False):
    """A pool with the options of some of its routes."""

    plan: Plan
    pool: Pool
    options: ClusterOptions
    is_l4: bool
    is_l7: bool


class Contributor(Struct, frozen=True, eq=False):
    """A feature: what it adds to each message of Envoy's, and its objections; None where it adds nothing.

    Fields are merged with those of other contributors by `protobuf.merge`, in the order of `features.FEATURES`.
    """

    listener: Callable[[Listener], Fields] | None = None
    network_filters: Callable[[HttpListener], list[Data]] | None = None  # before the connection manager
    manager: Callable[[HttpListener], Fields] | None = None  # the connection manager: http_filters, route_config, ...
    by_client: Callable[[Listener, Sequence[Route]], bool] | None = None  # see `HttpListener`
    virtual_host: Callable[[HttpListener], Fields] | None = None
    split: Callable[[HttpRoute], Iterable[HttpRoute]] | None = None  # where parts of a rule differ
    spares_tunnels: Callable[[Forward], bool] | None = None  # where it has no part in WebSocket
    route: Callable[[HttpRoute], Fields] | None = None  # an Envoy route: its action, typed_per_filter_config, ...
    cluster: Callable[[Cluster], Fields] | None = None
    upstream_filters: Callable[[Cluster], list[Data]] | None = None  # HTTP filters of a cluster
    endpoint: Callable[[Endpoint, Pool], Fields] | None = None
    objections: Callable[[Plan, str], Iterable[Objection]] | None = None  # by version


def http_routes(plan: Plan) -> Iterator[tuple[Route, tuple[Listener, ...]]]:
    """The routes that are not for L4 alone, with their L7 listeners."""
    l4 = {rule.route for listener in plan.listeners if listener.mode is Mode.L4 for rule in listener.l4_rules}
    served: dict[str, dict[str, Listener]] = {}
    for listener in plan.listeners:
        for table in listener.hosts:
            for rule in table.rules:
                served.setdefault(rule.route, {})[listener.name] = listener
    for route in plan.routes:
        if route.name not in l4:
            yield route, tuple(served.get(route.name, {}).values())
