"""User names and passwords: Envoy's filter, which knows SHA-1 alone, with the users of each route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection
from lbgen.engines.document import Commented
from lbgen.engines.envoy.mutations import SET, header_option
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.engines.users import object_to_hashes, users_path
from lbgen.plan.auth import BasicAuth, JwtAuth, Scheme
from lbgen.plan.model import Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "basic-auth"
_KIND = "filters.http.basic_auth.v3.BasicAuth"
_METADATA, _CHALLENGE = "lbgen", "challenge"
_REALM_NOTE = "In place of the request's URL, which Envoy names as the realm. Other answers have no such metadata."
_CHECKS = frozenset({Scheme.SHA1})


def _manager(on: HttpListener) -> dict[str, Data]:
    """The filter, off but for routes with users, which it needs some of."""
    auths = [route.auth for route in on.routes if isinstance(route.auth, BasicAuth)]
    return {"http_filters": [extension(_FILTER, _KIND, _users(auths[0]), disabled=True)]} if auths else {}


def _challenges(on: HttpListener) -> dict[str, Data]:
    """The challenges of routes in Envoy's own answers."""
    if not (named := named_challenges(on)):
        return {}
    is_401: Data = {"op": "EQ", "value": {"default_value": 401, "runtime_key": "lbgen.unauthorized"}}
    mapper: Data = {"filter": {"status_code_filter": {"comparison": is_401}}, "headers_to_add": named}
    return {"local_reply_config": {"mappers": [Commented(_REALM_NOTE, mapper)]}}


def named_challenges(on: HttpListener) -> list[Data]:
    """The header with a route's challenge, where some route has one; other answers get none."""
    if not any(isinstance(route.auth, BasicAuth | JwtAuth) for route in on.routes):
        return []
    return [header_option("www-authenticate", f"%METADATA(ROUTE:{_METADATA}:{_CHALLENGE})%", SET)]


def _route(at: HttpRoute) -> dict[str, Data]:
    auth = at.route.auth
    if not isinstance(auth, BasicAuth):
        return {}
    users = typed("envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute", _users(auth))
    return {
        **challenge(f'Basic realm="{auth.realm}"'),
        "typed_per_filter_config": {_FILTER: users},
    }


def challenge(value: str) -> dict[str, Data]:
    """The metadata of a route whose 401 names this challenge."""
    return {"metadata": {"filter_metadata": {_METADATA: {_CHALLENGE: value}}}}


def _users(auth: BasicAuth) -> dict[str, Data]:
    return {"users": {"filename": users_path(auth)}}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    return object_to_hashes(plan, "Envoy", _CHECKS, Scheme.SHA1)


CHALLENGES = Contributor(manager=_challenges)
BASIC_AUTH = Contributor(manager=_manager, route=_route, objections=_objections)
