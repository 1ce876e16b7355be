"""The plan: what every engine must do, with names resolved and every default written out.

Frozen data without engine words. Times are whole milliseconds (0 = no limit), sizes bytes, header names lower-case.
`field` is the topology field an object came from, such as `routes[2]`; it names the place in reports and source maps.
Order carries meaning everywhere: lists are in the order in which an engine must try them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from msgspec import Struct, field

from lbgen.diagnostics import NOWHERE, Span, counted
from lbgen.plan.acme import Acme  # read at run time, as plans are saved
from lbgen.plan.error_pages import ErrorPage
from lbgen.plan.features import Feature, all_features, check_feature
from lbgen.plan.listener import ClientTimeouts, Listener, Mode, Protocol
from lbgen.plan.pool import Balance, Endpoint, Pool, PoolProtocol
from lbgen.plan.route import Forward, HeaderEdits, Redirect, Respond, Rewrite, Route, Target, Timeouts
from lbgen.plan.rules import (
    HostPattern,
    HostTable,
    L4Rule,
    Match,
    Rule,
)
from lbgen.plan.spans import Spans
from lbgen.plan.tls import Certificate, File

# Engines import the nouns of a plan from here.
__all__ = [
    "Balance",
    "ClientTimeouts",
    "ContainerLimits",
    "Endpoint",
    "EngineOptions",
    "Forward",
    "HeaderEdits",
    "HostPattern",
    "HostTable",
    "L4Rule",
    "Listener",
    "Match",
    "Metrics",
    "Mode",
    "Plan",
    "Pool",
    "PoolProtocol",
    "Protocol",
    "Redirect",
    "Respond",
    "Rewrite",
    "Route",
    "Rule",
    "Target",
    "TierOf",
    "Timeouts",
    "Use",
]


class Use(Struct, frozen=True):
    """One use of a feature. `default`: the user did not write the field; it stands for a default value."""

    feature: Feature
    field: str
    default: bool = False

    @property
    def engine(self) -> str:
        """The only engine that the setting is for (`engines.NAME.SETTING`); "" for all."""
        section, _, rest = self.field.partition(".")
        return rest.partition(".")[0] if section == "engines" else ""


class EngineOptions(Struct, frozen=True):
    """`engines.<name>`: version None = the newest supported, `forwarding` None = not written. `verbatim` are (insertion
    point, text) of its configuration. `device`: with direct forwarding, the interface to the segment of all endpoints.
    `certificate_arns`: by listener, the default certificate first.
    """

    version: str | None = None
    forwarding: str | None = None
    verbatim: tuple[tuple[str, str], ...] = ()
    device: str | None = None
    certificate_arns: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ContainerLimits(Struct, frozen=True):
    """Limits of each container: bytes, and processes with their threads."""

    memory: int = 2 << 30
    pids: int = 1024


class Metrics(Struct, frozen=True):
    """Where the agent serves metrics."""

    address: str
    port: int


class TierOf(Struct, frozen=True):
    """The tier of a topology that a plan is for. `replica` counts from 1; 0 = any replica."""

    topology: str
    tier: str
    replica: int = 0

    @property
    def part(self) -> str:
        """Its name in commands, such as `web-1`."""
        return f"{self.tier}-{self.replica}" if self.replica else self.tier

    @property
    def name(self) -> str:
        """The name of its own stack, and of its plan."""
        return f"{self.topology}-{self.part}"


class Plan(Struct, frozen=True, dict=True):  # `dict` for what is cached
    """What `lbgen.plan` makes of a topology, for engines and the oracle; times in milliseconds, sizes in bytes.

    `resolvers` are DNS servers (IP or IP:port) for engines that do not use the system's. The runtime
    sets `admin_port`, a loopback port for the engine's status interface, and `admin_shared` where other stacks share
    that loopback. `tier` is set for a part of a tiered topology. `workers`: so many processes of engines that count
    all cores, instead of those that they may use."""

    name: str
    listeners: tuple[Listener, ...]
    pools: tuple[Pool, ...]
    routes: tuple[Route, ...]
    uses: tuple[Use, ...] = ()
    accept: tuple[str, ...] = ()
    engines: tuple[tuple[str, EngineOptions], ...] = ()
    resolvers: tuple[str, ...] = ()
    containers: ContainerLimits = ContainerLimits()
    networks: tuple[str, ...] = ()  # of docker, which containers join
    spans: Spans = field(default_factory=Spans)  # of objects and of the fields of routes
    use_spans: Spans = field(default_factory=Spans)  # of the fields of `uses`
    admin_port: int | None = None
    admin_shared: bool = False
    tier: TierOf | None = None
    metrics: Metrics | None = None
    acme: Acme | None = None  # what the agent obtains and answers
    workers: int | None = None

    # By name, once: engines ask for every route and pool.
    @cached_property
    def _routes(self) -> dict[str, Route]:
        return {route.name: route for route in self.routes}

    @cached_property
    def _pools(self) -> dict[str, Pool]:
        return {pool.name: pool for pool in self.pools}

    @cached_property
    def _listeners(self) -> dict[str, Listener]:
        return {listener.name: listener for listener in self.listeners}

    @cached_property
    def _identity_headers(self) -> dict[str, tuple[str, ...]]:
        auths = {route.name: route.auth.identity_headers for route in self.routes if route.auth is not None}
        found = {}
        for listener in self.listeners if auths else ():
            names = (auths.get(rule.route, ()) for table in listener.hosts for rule in table.rules)
            found[listener.name] = tuple(dict.fromkeys(chain.from_iterable(names)))
        return found

    def __repr__(self) -> str:
        sizes = {"listener": len(self.listeners), "pool": len(self.pools), "route": len(self.routes)}
        return f"<Plan {self.name}: {counted(sizes)}>"

    def route(self, name: str) -> Route:
        """The route of that name; KeyError when there is none."""
        return self._routes[name]

    def pool(self, name: str) -> Pool:
        """The pool of that name; KeyError when there is none."""
        return self._pools[name]

    def listener(self, name: str) -> Listener:
        """The listener of that name; KeyError when there is none."""
        return self._listeners[name]

    def identity_headers(self, listener: Listener) -> tuple[str, ...]:
        """The fields by which the auth of some route of the listener says who the client is: none of its clients can
        send them, to whatever route."""
        return self._identity_headers.get(listener.name, ())

    def error_pages(self, listener: Listener, route: Route | None = None) -> tuple[ErrorPage, ...]:
        """The pages for answers on the listener, of the route or of none, in the order of trial. Clients of gRPC get
        none."""
        if route is None:
            return listener.error_pages
        pages = (*route.error_pages, *listener.error_pages)
        if not pages or not isinstance(route.action, Forward):
            return pages
        is_grpc = any(self.pool(target.pool).protocol is PoolProtocol.GRPC for target in route.action.targets)
        return () if is_grpc else pages

    def every_page(self) -> Iterator[ErrorPage]:
        """All pages, those of a listener of the topology for each listener."""
        for listener in self.listeners:
            yield from listener.error_pages
        for route in self.routes:
            yield from route.error_pages

    @property
    def files(self) -> tuple[File, ...]:
        """Every file the topology names, once, in a fixed order."""
        return tuple(dict.fromkeys(file for _, file in self.named_files()))

    def named_files(self) -> Iterator[tuple[str, File]]:
        """Field and file of every file that the topology names."""
        for listener in self.listeners:
            if listener.tls is not None:
                for pair in listener.tls.certificates:
                    yield from _pair(pair)
                if listener.tls.client_ca is not None:
                    yield f"{listener.field}.tls.client.ca", listener.tls.client_ca
        for order in self.acme.certificates if self.acme is not None else ():
            if order.ca is not None:
                yield f"{order.certificate.field}.ca", order.ca
        for pool in self.pools:
            if pool.tls is not None:
                if pool.tls.certificate is not None:
                    yield from _pair(pool.tls.certificate)
                if pool.tls.ca is not None:
                    yield f"pools.{pool.name}.tls.ca", pool.tls.ca

    def span(self, field: str) -> Span:
        """The place of `field` in the topology, or of the nearest thing around it that has one."""
        while field and self.spans.get(field) is None:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.spans.get(field) or NOWHERE

    def uses_by_feature(self) -> dict[Feature, tuple[Use, ...]]:
        """The features that the plan uses, in the order of `all_features`, each with the fields that ask for it."""
        found: dict[Feature, list[Use]] = {}
        for use in self.uses:
            found.setdefault(use.feature, []).append(use)
        return {feature: tuple(found[feature]) for feature in all_features() if feature in found}

    def uses_of(self, feature: Feature) -> tuple[Use, ...]:
        """Its uses, in the order of the file."""
        name = check_feature(feature)
        return tuple(use for use in self.uses if use.feature == name)

    def options(self, engine: str) -> EngineOptions:
        """The options of `engines.<engine>`, or the defaults."""
        return dict(self.engines).get(engine, EngineOptions())


def _pair(pair: Certificate) -> Iterator[tuple[str, File]]:
    yield f"{pair.field}.cert", pair.cert
    yield f"{pair.field}.key", pair.key
