"""Authentication: one for each route, files that can be read, identities that no client can send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lbgen.plan import resolve_auth
from lbgen.plan.auth import AuthFileError, read_keys, read_users
from lbgen.plan.checks.context import list_names, suggest_known

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.checks.context import Context
    from lbgen.spec.auth import Auth


def check(context: Context) -> None:
    """LB201 unknown pool, LB240 two auths for a route, LB241 a file of users or keys, LB242 an identity that a client
    can send."""
    for field, auth in written_auths(context):
        _files(context, field, auth)
        if auth.forward is not None and auth.forward.pool is not None and auth.forward.pool not in context.model.pools:
            hint = suggest_known(auth.forward.pool, context.model.pools)
            context.add("LB201", f"{field}.forward.pool", f'there is no pool "{auth.forward.pool}"', hint)
    for index, route in enumerate(context.model.routes):
        if not context.expanded.is_l7(index):
            continue
        if route.auth is None:
            _one_for_all(context, index)
        _identities(context, index)


def written_auths(context: Context) -> Iterator[tuple[str, Auth]]:
    """Every auth of the topology, with its field."""
    for name, listener in context.model.listeners.items():
        if listener.auth is not None:
            yield f"listeners.{name}.auth", listener.auth
    for index, route in enumerate(context.model.routes):
        if route.auth is not None:
            yield f"routes[{index}].auth", route.auth


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


def _one_for_all(context: Context, index: int) -> None:
    names = context.expanded.listeners[index]
    first, *others = names
    auth = context.model.listeners[first].auth
    differ = [name for name in others if context.model.listeners[name].auth != auth]
    if differ:
        message = f'is on listener "{first}" and on {list_names(differ)}, which ask for other users, or for none'
        hint = "write a route for each listener (listeners: [...]), or auth: on the route, `auth: none` to open it"
        context.add("LB240", f"routes[{index}]", message, hint, key=True)


def _identities(context: Context, index: int) -> None:
    found = resolve_auth.written(context.expanded, index)
    if found is None:
        return
    auth, field = found
    headers = [
        *(auth.forward.response_headers if auth.forward else ()),
        *(auth.jwt.claims_to_headers if auth.jwt else ()),
    ]
    if not headers:
        return
    model = context.model
    for name in context.expanded.listeners[index]:
        if (model.listeners[name].headers_with_underscores or model.headers_with_underscores) == "pass":
            like = headers[0].replace("-", "_")
            message = f'listener "{name}" passes {like} of clients, which endpoints may take for {headers[0]}'
            context.add("LB242", field, message, "write headers_with_underscores: drop on the listener")
