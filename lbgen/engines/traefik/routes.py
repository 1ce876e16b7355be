"""What a router does with a request: the chain of middlewares of a route, and its service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.traefik.access import answer_with, build_access, denied_clients
from lbgen.engines.traefik.error_pages import build_pages
from lbgen.engines.traefik.features import FEATURES
from lbgen.engines.traefik.forward_auth import build_asked_router, build_question, identity_headers, name_asked
from lbgen.engines.traefik.headers import build_edits
from lbgen.engines.traefik.middlewares import Middlewares
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.upstreams import Services
from lbgen.engines.traefik.view import HttpRoute
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.error_pages import page_for
from lbgen.plan.model import Forward, Listener, Mode, Plan, Redirect, Route
from lbgen.plan.path_conditions import Path
from lbgen.plan.route_values import route_facts
from lbgen.plan.values import Template

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    _Chain = tuple[tuple[str, ...], str]  # middlewares, service

_NO_SERVICE = "noop@internal"
_MIDDLEWARES = [each.middlewares for each in FEATURES if each.middlewares]
_ANSWERING = [each.middlewares for each in FEATURES if each.middlewares and each.answers]


def _find_refusals(plan: Plan) -> Iterator[int]:
    """The statuses with which routers answer by themselves."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    if level7:
        yield 400
    accesses = (*(listener.access for listener in level7), *(route.access for route in plan.routes))
    if any(map(denied_clients, accesses)):
        yield 403


class Routes:
    """The chains of all routes, found at once, so that each middleware and service has its name before any is used."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._middlewares = Middlewares({route.name: route.field for route in plan.routes})
        self.services = Services(plan, self._middlewares)
        self._chains: dict[tuple[object, ...], _Chain] = {}
        self._refusals = {
            status: self._middlewares.use("", f"refuse-{status}", answer_with(status))
            for status in _find_refusals(plan)
        }
        self._identities = identity_headers(plan)
        self._ways = name_asked(plan)
        self._asked = {
            name: (
                tuple(
                    key for kind, data in build_question(name, auth) for key in self._middlewares.use("", kind, data)
                ),
                self.services.asked(auth, name),
            )
            for auth, name in self._ways.items()
        }
        for listener in plan.listeners:
            if listener.mode is not Mode.L7:
                continue
            self._listener_access(listener)
            self._pages(listener)
            self._no_route(listener)
            for table in listener.hosts:
                for rule in table.rules:
                    self._find_chain(rule.route, rule.match.path, listener)
                    self._pages(listener, rule.route)
                    self._edits(rule.route)

    def target(self, route: str, path: Path, listener: Listener) -> dict[str, Data]:
        """The `middlewares` and `service` of a router."""
        chain, service = self._find_chain(route, path, listener)
        pages = self._pages(listener, route)
        return self._router((*pages, *self._listener_access(listener), *chain), service)

    def refuse(self, status: int, listener: Listener, route: str = "") -> dict[str, Data]:
        """The same for a router of requests that are answered with 400 or 403, on a listener or for a route."""
        chain = (*self._pages(listener, route), *self._edits(route), *self._refusals[status])
        return self._router(chain, _NO_SERVICE)

    def not_found(self, listener: Listener) -> dict[str, Data]:
        """The same for a router of requests that no rule takes; empty where Traefik's own answer will do."""
        if page_for(listener.error_pages, 404) is None:
            return {}
        chain = (*self._pages(listener), *self._listener_access(listener), *self._no_route(listener))
        return self._router(chain, _NO_SERVICE)

    def _no_route(self, listener: Listener) -> tuple[str, ...]:
        if page_for(listener.error_pages, 404) is None:
            return ()
        return self._middlewares.use("", "no-route", use_plugin("respond", {"status": 404}))

    def _pages(self, listener: Listener, route: str = "") -> tuple[str, ...]:
        of = self._plan.route(route) if route else None
        pages = self._plan.error_pages(listener, of)
        own = any(page.field.startswith("routes[") for page in pages)
        return self._middlewares.use(route if own else "", "error-pages", build_pages(pages, of, listener))

    def _edits(self, route: str) -> tuple[str, ...]:
        """Of answers to clients whom the route denies."""
        denies = route and self._plan.route(route).access
        if not denies or not denied_clients(denies):
            return ()
        return self._middlewares.use(route, "headers", build_edits(None, self._plan.route(route).response_headers))

    def build_asked(self) -> dict[str, Data]:
        """The routers of questions to services, on the entry point for this host alone."""
        return {
            name: {**build_asked_router(name), **self._router(chain, service)}
            for name, (chain, service) in self._asked.items()
        }

    def middlewares(self) -> dict[str, Data]:
        """The `middlewares` section."""
        return self._middlewares.build()

    def explain_middlewares(self) -> str:
        """The comment of that section: what its tricks are for."""
        lines = ["What happens to a request on its way to a service."]
        if self._middlewares.has("rejectStatusCode"):
            lines.append("Traefik answers by itself through an access list that admits nobody.")
        if self._middlewares.has("X-Replaced-Path"):
            lines.append("With a rewrite, Traefik sends the old path as X-Replaced-Path, which is removed.")
        return "\n".join(lines)

    def _router(self, chain: tuple[str, ...], service: str) -> dict[str, Data]:
        data: dict[str, Data] = {"middlewares": self._middlewares.names(chain)} if chain else {}
        return {**data, "service": service}

    def _listener_access(self, listener: Listener) -> tuple[str, ...]:
        if listener.access is None:
            return ()
        return self._middlewares.use(listener.name, "access", build_access(listener.access))

    def _find_chain(self, name: str, matched: Path, listener: Listener) -> _Chain:
        route = self._plan.route(name)
        redirects = isinstance(route.action, Redirect)
        address = (listener.scheme, listener.client_port) if redirects else None
        asks_login = isinstance(route.auth, ForwardAuth) and isinstance(route.auth.redirect_to, Template)
        varies = listener.name if asks_login or route_facts(route) else None
        key = (name, matched, address, bool(listener.error_pages), varies)
        if key not in self._chains:
            self._chains[key] = self._chain(route, matched, listener)
        return self._chains[key]

    def _chain(self, route: Route, matched: Path, listener: Listener) -> _Chain:
        forward = route.action if isinstance(route.action, Forward) else None
        at = HttpRoute(self._plan, route, forward, matched, listener, self._identities.get(route.name, ()), self._ways)
        answered = forward is None or any(data for each in _ANSWERING for _, data in each(at))
        at = replace(at, answered=answered)
        service = _NO_SERVICE if forward is None else self.services.of(route, forward, matched, listener)
        found = [one for each in _MIDDLEWARES for one in each(at)]
        return tuple(key for kind, data in found for key in self._middlewares.use(route.name, kind, data)), service
