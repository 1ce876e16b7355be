"""What a router does with a request: the chain of middlewares of a route, and its service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik import limits
from lbgen.engines.traefik.headers import build_compression, build_cors
from lbgen.engines.traefik.middlewares import Middlewares
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.rewrites import build_redirect, build_rewrite
from lbgen.engines.traefik.upstreams import Services
from lbgen.plan.model import Forward, HeaderEdits, Mode, Redirect, Respond
from lbgen.plan.policy import REPLAYED_BODY, RetryCause
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.path_conditions import Path
    from lbgen.plan.policy import Retries

    _Chain = tuple[tuple[str, ...], str]  # middlewares, service

_NO_SERVICE = "noop@internal"
_TRACE = ("x-replaced-path",)  # what a rewrite adds to a request
# What Traefik answers itself where an endpoint resets the connection, or is late; an endpoint's own count as well.
_STATUSES = {RetryCause.RESET: 502, RetryCause.TIMEOUT: 504}


def _find_refusals(plan: Plan) -> Iterator[int]:
    """The statuses with which routers answer by themselves."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    if level7:
        yield 400
    accesses = (*(listener.access for listener in level7), *(route.access for route in plan.routes))
    if any(map(limits.denied_clients, accesses)):
        yield 403


class Routes:
    """The chains of all routes; ask for each of them before the sections are built."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._middlewares = Middlewares({route.name: route.field for route in plan.routes})
        self.services = Services(plan, self._middlewares)
        self._chains: dict[tuple[object, ...], _Chain] = {}
        self._refusals = {
            status: self._middlewares.use("", f"refuse-{status}", limits.answer_with(status))
            for status in _find_refusals(plan)
        }
        for listener in plan.listeners:
            if listener.mode is not Mode.L7:
                continue
            self._listener_access(listener)
            for table in listener.hosts:
                for rule in table.rules:
                    self._find_chain(rule.route, rule.match.path, listener)

    def target(self, route: str, path: Path, listener: Listener) -> dict[str, Data]:
        """The `middlewares` and `service` of a router."""
        chain, service = self._find_chain(route, path, listener)
        return self._router((*self._listener_access(listener), *chain), service)

    def refuse(self, status: int) -> dict[str, Data]:
        """The same for a router of requests that are answered with 400 or 403."""
        return self._router(self._refusals[status], _NO_SERVICE)

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

    def _find_chain(self, name: str, matched: Path, listener: Listener) -> _Chain:
        route = self._plan.route(name)
        redirects = isinstance(route.action, Redirect)
        key = (name, matched, (listener.scheme, listener.client_port) if redirects else None)
        if key not in self._chains:
            self._chains[key] = self._chain(route, matched, listener)
        return self._chains[key]

    def _chain(self, route: Route, matched: Path, listener: Listener) -> _Chain:
        use, name = self._middlewares.use, route.name
        policies: tuple[str, ...] = ()
        if route.access is not None:
            policies += use(name, "access", limits.build_access(route.access))
        if route.rate_limit is not None:
            policies += use(name, "rate", limits.build_rate_limit(route.rate_limit))
        if route.concurrency is not None:
            policies += use(name, "concurrency", limits.build_concurrency(route.concurrency))
        if route.cors is not None:
            policies += use(name, "cors", build_cors(route.cors))
        if (compression := route.compression) is not None:
            policies += use(name, "gzip", build_compression(compression))
        if route.max_body is not None and not isinstance(route.action, Forward):
            policies += use(name, "body", use_plugin("maxBody", route.max_body))
        action, service = self._action(route, matched, listener)
        if policies or not isinstance(route.action, Forward):
            # Before the limits, so that their own answers have the headers too.
            edits = self._middlewares.edits(name, None, route.response_headers)
            return (*edits, *policies, *action, *self._forwarding(route, None)), service
        return (*action, *self._forwarding(route, route.response_headers)), service

    def _action(self, route: Route, matched: Path, listener: Listener) -> _Chain:
        use = self._middlewares.use
        match route.action:
            case Forward() as forward:
                rewrite = {} if forward.rewrite is None else build_rewrite(forward.rewrite, matched)
                return use(route.name, "rewrite", rewrite), self.services.of(route, forward)
            case Redirect() as redirect:
                return use(route.name, "redirect", build_redirect(redirect, matched, listener)), _NO_SERVICE
            case Respond(status, body, headers):
                answer: dict[str, Data] = {"status": status}
                if body:
                    answer["body"] = body
                if headers:
                    answer["headers"] = dict(headers)
                return use(route.name, "respond", use_plugin("respond", answer)), _NO_SERVICE

    def _forwarding(self, route: Route, response: HeaderEdits | None) -> tuple[str, ...]:
        """What comes last before the service: edits, bodies, times, retries."""
        if not isinstance(route.action, Forward):
            return ()
        forward, use = route.action, self._middlewares.use
        chain = self._middlewares.edits(route.name, self._request_edits(route, forward), response)
        if route.max_body is not None:
            chain += use(route.name, "body", use_plugin("maxBody", route.max_body))
        if forward.buffering.request or forward.buffering.response:
            chain += use(route.name, "buffering", limits.build_buffering())
        if forward.timeouts.request:
            chain += use(route.name, "time", use_plugin("timeout", forward.timeouts.request))
        if forward.retries is not None:
            chain += use(route.name, "retry", _build_retries(forward.retries))
        return chain

    def _request_edits(self, route: Route, forward: Forward) -> HeaderEdits:
        """The route's, and what its rewrite needs."""
        edits, rewrite = route.request_headers, forward.rewrite
        if rewrite is None:
            return edits
        if rewrite.prefix is not None or rewrite.path is not None:
            edits = replace(edits, remove=(*edits.remove, *(n for n in _TRACE if n not in dict(edits.set))))
        return edits if rewrite.host is None else replace(edits, set=(*edits.set, ("host", rewrite.host)))


def _build_retries(retries: Retries) -> dict[str, Data]:
    """Without statuses only failed connections are retried, which is nearly free; with them bodies are kept in memory,
    by default in 2 MiB for each request."""
    data: dict[str, Data] = {"attempts": retries.max + 1}
    own = [status for cause, status in _STATUSES.items() if cause in retries.causes]
    if statuses := sorted({*retries.statuses, *own}):
        data["status"] = [str(status) for status in statuses]
        data["maxRequestBodyBytes"] = REPLAYED_BODY
        if retries.all_methods:
            data["retryNonIdempotentMethod"] = True
        if RetryCause.CONNECT_FAILURE not in retries.causes:
            data["disableRetryOnNetworkError"] = True
    return {"retry": data}
