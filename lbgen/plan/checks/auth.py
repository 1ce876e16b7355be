"""Authentication: one for each route, files that can be read, identities that no client can send."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lbgen.plan.auth import AuthFileError, read_keys, read_users
from lbgen.plan.checks.context import Context, suggest_known
from lbgen.plan.forwarding import FORWARDED_FOR, REAL_IP, RFC_7239
from lbgen.spec.auth import Auth
from lbgen.spec.listener import Listener
from lbgen.spec.model import TopologyModel


def check(context: Context) -> None:
    """LB201 unknown pool, LB229 an identity in a field about the client's address, LB241 a file of users or keys, LB242
    an identity that a client can send."""
    for field, auth in context.values(Auth).items():
        _files(context, field, auth)
        if auth.forward is not None and auth.forward.pool is not None and auth.forward.pool not in context.model.pools:
            hint = suggest_known(auth.forward.pool, context.model.pools)
            context.add("LB201", f"{field}.forward.pool", f'there is no pool "{auth.forward.pool}"', hint)
    for index, route in enumerate(context.model.routes):
        if route.auth is not None and context.expanded.is_l7(index):
            _identities(context, index, route.auth)


def _files(context: Context, field: str, auth: Auth) -> None:
    base = context.topology.base
    read: Callable[[Path], object]
    if auth.basic is not None:
        place, name, read = f"{field}.basic.users", auth.basic.users, read_users
    elif auth.jwt is not None and isinstance(auth.jwt.jwks, str):
        place, name, read = f"{field}.jwt.jwks", auth.jwt.jwks, read_keys
    else:
        return
    try:
        read(base / name)
    except OSError as error:
        context.add("LB241", place, f'"{name}" cannot be read: {(error.strerror or "").lower()}')
    except AuthFileError as error:
        line = "" if error.line is None else f":{error.line}"
        context.add("LB241", place, f"{name}{line}: {error}", error.hint)


def _identities(context: Context, index: int, auth: Auth) -> None:
    headers = auth.identity_headers
    if not headers:
        return
    model = context.model
    for name in context.expanded.listeners[index]:
        if taken := sorted(client_fields(model, model.listeners[name]).intersection(map(str.lower, headers))):
            message = f'{taken[0]} holds the client\'s address on listener "{name}", not who the client is'
            context.add("LB229", f"routes[{index}].auth", message, "write a name such as x-user")
        if (model.listeners[name].headers_with_underscores or model.headers_with_underscores) == "pass":
            like = headers[0].replace("-", "_")
            message = f'listener "{name}" passes {like} of clients, which endpoints may take for {headers[0]}'
            context.add(
                "LB242", f"routes[{index}].auth", message, "write headers_with_underscores: drop on the listener"
            )


def client_fields(model: TopologyModel, listener: Listener) -> set[str]:
    """The fields about the client that a listener sets or reads, but for X-Forwarded-For."""
    headers, stated = model.forwarded_headers, listener.client_ip
    fields = set() if stated is None else {stated.header}
    if headers is not None:
        fields |= {name for name, on in ((REAL_IP, headers.real_ip), (RFC_7239, headers.forwarded)) if on}
    return fields - {FORWARDED_FOR}
