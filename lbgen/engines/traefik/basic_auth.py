"""User names and passwords: Traefik's middleware, which knows bcrypt, MD5 and SHA-1 and reads the users at a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.engines.users import object_to_hashes, users_path
from lbgen.plan.auth import BasicAuth, Scheme
from lbgen.plan.model import Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_CHECKS = frozenset({Scheme.BCRYPT, Scheme.APR1, Scheme.MD5, Scheme.SHA1})


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    auth = at.route.auth
    if isinstance(auth, BasicAuth):
        yield "users", {"basicAuth": {"usersFile": users_path(auth), "realm": auth.realm}}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    return object_to_hashes(plan, "Traefik", _CHECKS, Scheme.BCRYPT)


BASIC_AUTH = Contributor(middlewares=_middlewares, answers=True, objections=_objections)
