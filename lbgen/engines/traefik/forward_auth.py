"""Authentication by a service: Traefik's forwardAuth, and routers by which it reaches the service's pool.

forwardAuth asks one address and waits 30 s. So it asks the entry point for this host alone, whose routers lead to the
pool with its endpoints, checks, TLS and times.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.api import Objection, refused
from lbgen.engines.traefik.headers import title
from lbgen.engines.traefik.names import ADMIN, MARK
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.values import write_shared
from lbgen.engines.traefik.view import Contributor, HttpRoute, find_routes, http_listeners, http_routes, internal_port
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Plan
from lbgen.plan.values import Template

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_SIGN_IN = "https://lbgen.invalid/login"  # see values.go
_MOST_BODY = 1 << 20  # bytes of an answer; a longer one denies
# What Traefik adds to a question.
_ADDED = ("x-forwarded-port", "x-forwarded-server", "x-real-ip", "x-replaced-path")


def name_asked(plan: Plan) -> dict[ForwardAuth, str]:
    """The router for each way to ask a service."""
    auths = [_way(route.auth) for route in http_routes(plan) if isinstance(route.auth, ForwardAuth)]
    numbers: dict[str, int] = {}
    names: dict[ForwardAuth, str] = {}
    for auth in dict.fromkeys(auths):
        number = numbers[auth.pool] = numbers.get(auth.pool, 0) + 1
        names[auth] = f"auth{MARK}{auth.pool}" if number == 1 else f"auth{MARK}{auth.pool}{MARK}{number}"
    return names


def identity_headers(plan: Plan) -> dict[str, dict[str, None]]:
    """The fields that no client of a route's listeners can send, by route."""
    found: dict[str, dict[str, None]] = {}
    for listener in http_listeners(plan):
        if names := dict.fromkeys(plan.identity_headers(listener)):
            for route in find_routes(plan, listener):
                found.setdefault(route.name, {}).update(names)
    return found


def _way(auth: ForwardAuth) -> ForwardAuth:
    """What the questions depend on beyond forwardAuth itself."""
    return replace(auth, field="", request_headers=(), response_headers=(), redirect_to=None)


def build_asking(plan: Plan) -> dict[str, Data]:
    """The fields of the entry point that is asked: questions keep the X-Forwarded-* that forwardAuth writes."""
    return {"forwardedHeaders": {"insecure": True, "notAppendXForwardedFor": True}} if name_asked(plan) else {}


def build_asked_router(name: str) -> dict[str, Data]:
    """The router of questions without its service."""
    return {"entryPoints": [ADMIN], "rule": f"Path(`/{name}`)"}


def build_question(name: str, auth: ForwardAuth) -> Iterator[tuple[str, dict[str, Data]]]:
    """The middlewares of that router: the path and the host that the service knows."""
    path = auth.target.partition("?")[0]
    yield name, {"replacePath": {"path": path}}
    headers: dict[str, Data] = {"Host": auth.host, **{title(each): "" for each in _ADDED}}
    yield f"{name}{MARK}headers", {"headers": {"customRequestHeaders": headers}}


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.identities:
        yield "identity", _without(tuple(at.identities))
    auth = at.route.auth
    if not isinstance(auth, ForwardAuth):
        return
    if isinstance(auth.redirect_to, Template):  # forwardAuth knows one address for all requests
        yield "login", use_plugin("values", {"login": write_shared(auth.redirect_to, at.listener)})
    if at.listener.trusted_proxies:  # forwardAuth would believe them
        yield "asked", _without(("x-forwarded-method", "x-forwarded-uri"))
    _, mark, query = auth.target.partition("?")
    address = f"http://127.0.0.1:{internal_port(at.plan)}/{at.asked[_way(auth)]}{mark}{query}"
    sent = auth.request_headers or ("x-forwarded-for",)  # of no names Traefik would send all
    forward: dict[str, Data] = {
        "address": address,
        "trustForwardHeader": True,
        "authRequestHeaders": [title(name) for name in sent],
        "maxResponseBodySize": _MOST_BODY,
        "preserveLocationHeader": True,
    }
    if auth.response_headers:
        forward["authResponseHeaders"] = [title(name) for name in auth.response_headers]
    if auth.redirect_to is not None:
        forward["authSigninURL"] = auth.redirect_to if isinstance(auth.redirect_to, str) else _SIGN_IN
    yield "auth", {"forwardAuth": forward}


@lru_cache(maxsize=64)  # all routes of a listener have the same
def _without(names: tuple[str, ...]) -> dict[str, Data]:
    return {"headers": {"customRequestHeaders": {title(name): "" for name in names}}}


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    for route in http_routes(plan):
        if isinstance(route.auth, ForwardAuth) and version == "3.6":
            why = "3.6 ends X-Forwarded-For of what the service is asked with this host; 3.7 does not"
            yield Objection(refused(why), route.auth.field)


FORWARD_AUTH = Contributor(middlewares=_middlewares, answers=True, objections=_objections)
