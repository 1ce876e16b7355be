"""Authentication by a service: a Lua function asks it by way of a frontend of the same process, which leads to the pool
with its endpoints, checks and times; HAProxy's own client knows one address alone."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.engines.haproxy.mirrors import internal_address, internal_frontend
from lbgen.engines.haproxy.quote import log_format
from lbgen.engines.haproxy.statements import Block, Statement, deny, is_set, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Timeouts
from lbgen.plan.precedence import group

_ADMITTED = is_set("txn.admitted")
_MARGIN = 1000  # ms that the client waits beyond the times of the frontend, which answers first
_FOREVER = 86_400_000  # ms
_KIND = "auth"


def _times(auth: ForwardAuth) -> Timeouts:
    return Timeouts(auth.connect, auth.response, auth.response)


def auth_frontends(on: HttpListener) -> Iterator[Block]:
    """A frontend for each backend that is asked about requests of this listener."""
    found = [route.auth for _, route in on.routes if isinstance(route.auth, ForwardAuth)]
    for name, field in {on.copies_to(on.plan.pool(auth.pool), _times(auth)): auth.field for auth in found}.items():
        yield internal_frontend(_KIND, name, on, field, "questions about requests, which lbgen.lua asks")


def _auths(on: HttpListener) -> dict[ForwardAuth, list[str]]:
    """Each auth with the keys of its routes."""
    asked = ((route.auth, key) for key, route in on.routes)
    return group((replace(auth, field=""), key) for auth, key in asked if isinstance(auth, ForwardAuth))


def _edits(on: HttpListener) -> Iterator[Statement]:
    """Ask, and refuse what was not admitted: HAProxy goes on to the next rule after an error of Lua."""
    per_route, auths = on.per_route, _auths(on)
    for number, (auth, keys) in enumerate(auths.items(), 1):
        name = f"auth.{number}"
        if auth.redirect_to is not None:
            login = statement("http-request set-var-fmt(txn.login)", Literal(log_format(auth.redirect_to)))
            yield per_route.restrict(login, keys, name)
        bounded = auth.connect and auth.response
        yield per_route.restrict(
            statement(
                "http-request lua.ask",
                internal_address(_KIND, on.copies_to(on.plan.pool(auth.pool), _times(auth)), on),
                Literal(auth.host),
                Literal(auth.target),
                Literal(",".join(auth.request_headers) or "-"),
                Literal(",".join(auth.response_headers) or "-"),
                str(auth.connect + auth.response + _MARGIN if bounded else _FOREVER),
            ),
            keys,
            name,
        )
    every = [key for keys in auths.values() for key in keys]
    if every:
        yield per_route.restrict(deny(503, [~_ADMITTED]), every, _KIND)


FORWARD_AUTH = Contributor(edits=_edits)
