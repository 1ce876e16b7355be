"""Credentials of guarded routes: a user and a key of ours beside those of the topology, and requests with others."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.plan.auth import Auth, BasicAuth, JsonWebKey, JwtAuth, KeysUrl, Scheme, User, parse_keys
from lbgen.plan.model import Plan, Route
from lbgen.plan.request import Request
from lbgen.runtime.common.tokens import public_keys, token

_NAME, _PASSWORD = "lbgen-verify", "of a stand-in's client"  # for stand-ins only
_HASH = base64.b64encode(hashlib.sha1(_PASSWORD.encode(), usedforsecurity=False).digest()).decode()
_USER = User(_NAME, f"{{SHA}}{_HASH}", Scheme.SHA1)  # which every engine checks
_EXPIRED = 1_000_000_000


def admit_ours(plan: Plan) -> Plan:
    """The plan with our user and our key beside its own. Keys that an engine reads from a URL become ours."""
    if all(route.auth is None for route in plan.routes):
        return plan
    return replace(plan, routes=tuple(replace(route, auth=_admitting(route.auth)) for route in plan.routes))


def _admitting(auth: Auth | None) -> Auth | None:
    if isinstance(auth, BasicAuth):
        return replace(auth, users=(*auth.users, _USER))
    if isinstance(auth, JwtAuth):
        ours: tuple[JsonWebKey, ...] = parse_keys(public_keys())
        return replace(auth, keys=ours if isinstance(auth.keys, KeysUrl) else (*auth.keys, *ours))
    return auth


def with_credentials(route: Route, request: Request) -> Request:
    """The request with what its route asks for, in place of an Authorization field of its own."""
    auth = route.auth
    if isinstance(auth, BasicAuth):
        return _authorized(request, _basic(_PASSWORD))
    if isinstance(auth, JwtAuth):
        return _authorized(request, f"Bearer {_token(auth)}")
    return request


def credential_requests(route: Route, hit: Request) -> Iterator[tuple[str, Request]]:
    """(clause, request) for what a guarded route admits and refuses."""
    auth = route.auth
    if not isinstance(auth, BasicAuth | JwtAuth):
        return
    values: list[str] = ["Basic", "Bearer", "Bearer a.b.c", f"Basic {base64.b64encode(b'no colon').decode()}"]
    if isinstance(auth, BasicAuth):
        values += [_basic("wrong"), _basic(""), _basic(_PASSWORD, "nobody"), _basic(_PASSWORD)[:-4] + "!"]
    else:
        values += [f"Bearer {_token(auth, made=made)}" for made in ("none", "HS256", "foreign", "unsigned")]
        elsewhere = "lbgen-elsewhere"
        changes: list[dict[str, object]] = [{"exp": _EXPIRED}, {"exp": None}, {"iss": elsewhere}, {"aud": elsewhere}]
        values += [f"Bearer {_token(auth, change)}" for change in changes]
        yield "5.auth", _authorized(hit, f"Bearer {_token(auth, {claim: None for _, claim in auth.claims})}")
    yield "5.auth", with_credentials(route, hit)
    yield "5.auth", replace(hit, headers=_others(hit))
    for value in values:
        yield "5.auth", _authorized(hit, value)
    forged = tuple((name, "forged") for name in auth.identity_headers)
    if forged:
        named = with_credentials(route, hit)
        yield "5.auth", replace(named, headers=(*named.headers, *forged))


def _basic(password: str, name: str = _NAME) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _token(auth: JwtAuth, claims: dict[str, object] | None = None, made: str = "ES256") -> str:
    """A token for the route; claims of the top level have a value."""
    usual = {claim: f"of {claim}" for _, claim in auth.claims if "." not in claim}
    return token({**usual, "aud": auth.audiences[0], **(claims or {})}, made, auth.issuer)


def _authorized(request: Request, value: str) -> Request:
    return replace(request, headers=(*_others(request), ("Authorization", value)))


def _others(request: Request) -> tuple[tuple[str, str], ...]:
    return tuple(line for line in request.headers if line[0].lower() != "authorization")
