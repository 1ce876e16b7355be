"""Authentication by a service: a Lua function asks it by way of a frontend of the same process, which leads to the pool
with its endpoints, checks and times; HAProxy's own client knows one address alone.

That frontend is one for all services, and a header names the backend: the client takes an idle connection to whatever
socket for one to this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from lbgen.engines.haproxy.statements import Block, Statement, acl, block, deny, is_set, set_var, statement
from lbgen.engines.haproxy.values import format_shared
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Mode, Plan, Pool, Timeouts
from lbgen.plan.precedence import group

_ADMITTED = is_set("txn.admitted")
_MARGIN = 1000  # ms that the client waits beyond the times of the frontend, which answers first
_FOREVER = 86_400_000  # ms
_LONGEST_NAME = 100  # of an abstract socket
_BACKEND = "x-lbgen-backend"


def _times(auth: ForwardAuth) -> Timeouts:
    return Timeouts(auth.connect, auth.response, auth.response)


def auth_frontend(plan: Plan, backend_of: Callable[[Pool, Timeouts], str]) -> Iterator[Block]:
    """The frontend that leads to the services of L7 listeners; none where no route asks one."""
    names = (
        rule.route
        for listener in plan.listeners
        if listener.mode is Mode.L7
        for t in listener.hosts
        for rule in t.rules
    )
    auths = [plan.route(name).auth for name in dict.fromkeys(names)]
    found = [auth for auth in auths if isinstance(auth, ForwardAuth)]
    backends = {backend_of(plan.pool(auth.pool), _times(auth)): auth.field for auth in found}
    if backends:
        field = found[0].field
        head = statement(
            "frontend lbgen:auth", origin=field, comment="leads what lua.auth_request sends to its backend"
        )
        yield block(
            head,
            "http",
            [
                statement(f"bind {_address(plan)}", origin=field),
                set_var("txn.backend", f"req.hdr({_BACKEND})", origin=field),
                statement(f"http-request del-header {_BACKEND}", origin=field),
                *(
                    statement(f"use_backend {name}", when=[acl(f"var(txn.backend) -m str {name}")], origin=each)
                    for name, each in backends.items()
                ),
            ],
        )


def _address(plan: Plan) -> str:
    """An abstract socket, as of mirrors."""
    port = min(listener.port for listener in plan.listeners)
    return f"abns@auth:{port}:{plan.name}"[:_LONGEST_NAME]


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
            login = statement("http-request set-var-fmt(txn.login)", Literal(format_shared(auth.redirect_to)))
            yield per_route.restrict(login, keys, name)
        bounded = auth.connect and auth.response
        yield per_route.restrict(
            statement(
                "http-request lua.auth_request",
                _address(on.plan),
                on.copies_to(on.plan.pool(auth.pool), _times(auth)),
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
        yield per_route.restrict(deny(503, [~_ADMITTED]), every, "auth")


FORWARD_AUTH = Contributor(edits=_edits)
