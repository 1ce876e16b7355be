"""What a router does with a request: the chain of middlewares of a route, and its service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik.native import limits
from lbgen.engines.traefik.native.headers import build_cors
from lbgen.engines.traefik.native.per_route import Middlewares
from lbgen.engines.traefik.native.retries import build_retries
from lbgen.engines.traefik.native.rewrites import build_redirect, build_rewrite
from lbgen.engines.traefik.native.upstreams import Services
from lbgen.plan.model import Forward, HeaderEdits, Redirect, Respond
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, PathMatch, Plan, Route
    from lbgen.plan.policy import Compression

_NO_SERVICE = "noop@internal"
_TRACE = ("x-replaced-path",)  # what a rewrite adds to a request


def build_compression(compression: Compression) -> dict[str, Data]:
    return {
        "compress": {
            "encodings": ["gzip"],
            "includedContentTypes": list(compression.types),
            "minResponseBodyBytes": compression.min_size,
        }
    }


class Routes:
    """The chains of all routes; ask for each of them before the sections are built."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._middlewares = Middlewares({route.name: route.field for route in plan.routes})
        self.services = Services(plan, self._middlewares)
        self._chains: dict[tuple[str, PathMatch], tuple[tuple[str, ...], str]] = {}
        for listener in plan.listeners:
            self._listener_access(listener)
            for table in listener.hosts:
                for rule in table.rules:
                    if (rule.route, rule.match.path) not in self._chains:
                        chain = self._chain(plan.route(rule.route), rule.match.path)
                        self._chains[rule.route, rule.match.path] = chain
        self._denied = {
            listener.name: self._deny(listener.name)
            for listener in plan.listeners
            if limits.denied_clients(listener.access)
        } | {route.name: self._deny(route.name) for route in plan.routes if limits.denied_clients(route.access)}

    def target(self, route: str, path: PathMatch, listener: Listener) -> dict[str, Data]:
        """The `middlewares` and `service` of a router."""
        chain, service = self._chains[route, path]
        return self._router((*self._listener_access(listener), *chain), service)

    def denied(self, name: str) -> dict[str, Data]:
        """The same for the router of clients that a route or a listener denies."""
        return self._router(self._denied[name], _NO_SERVICE)

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
        return self._middlewares.use(listener.name, "access", limits.build_access(listener.access))

    def _deny(self, name: str) -> tuple[str, ...]:
        return self._middlewares.use(name, "denied", limits.answer_with(403))

    def _chain(self, route: Route, matched: PathMatch) -> tuple[tuple[str, ...], str]:
        use, name = self._middlewares.use, route.name
        policies: tuple[str, ...] = ()
        if route.access is not None:
            policies += use(name, "access", limits.build_access(route.access))
        if route.rate_limit is not None:
            policies += use(name, "rate", limits.build_rate_limit(route.rate_limit))
        if route.concurrency is not None:
            policies += use(name, "concurrency", limits.build_concurrency(route.concurrency))
        buffering = isinstance(route.action, Forward) and route.action.buffering
        if route.max_body is not None or (buffering and (buffering.request or buffering.response)):
            policies += use(name, "body", limits.build_body_limit(route.max_body))
        if route.cors is not None:
            policies += use(name, "cors", build_cors(route.cors))
        if (compression := route.compression) is not None:
            policies += use(name, "gzip", build_compression(compression))
        action, service = self._action(route, matched)
        request, response = self._request_edits(route), route.response_headers
        if isinstance(route.action, Respond):
            response = replace(response, set=(*route.action.headers, *response.set))
        if policies or not isinstance(route.action, Forward):
            # Before the limits, so that their own answers have the headers too.
            edits = self._middlewares.edits(name, None, response)
            return (*edits, *policies, *action, *self._middlewares.edits(name, request), *self._retries(route)), service
        return (*action, *self._middlewares.edits(name, request, response), *self._retries(route)), service

    def _action(self, route: Route, matched: PathMatch) -> tuple[tuple[str, ...], str]:
        use = self._middlewares.use
        match route.action:
            case Forward() as forward:
                rewrite = {} if forward.rewrite is None else build_rewrite(forward.rewrite, matched)
                return use(route.name, "rewrite", rewrite), self.services.of(route, forward)
            case Redirect() as redirect:
                return use(route.name, "redirect", build_redirect(redirect, matched)), _NO_SERVICE
            case Respond() as respond:
                return use(route.name, "respond", limits.answer_with(respond.status)), _NO_SERVICE

    def _request_edits(self, route: Route) -> HeaderEdits | None:
        """Of a route that forwards, the rewrite's own among them."""
        if not isinstance(route.action, Forward):
            return None
        edits, rewrite = route.request_headers, route.action.rewrite
        if rewrite is None:
            return edits
        if rewrite.prefix is not None or rewrite.path is not None:
            edits = replace(edits, remove=(*edits.remove, *(n for n in _TRACE if n not in dict(edits.set))))
        return edits if rewrite.host is None else replace(edits, set=(*edits.set, ("host", rewrite.host)))

    def _retries(self, route: Route) -> tuple[str, ...]:
        if not isinstance(route.action, Forward) or route.action.retries is None:
            return ()
        return self._middlewares.use(route.name, "retry", build_retries(route.action.retries))
