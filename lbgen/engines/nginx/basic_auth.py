"""User names and passwords: nginx's own module, which checks hashes by its own MD5 and SHA-1 and the system's crypt."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.nginx.statements import Line
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, HttpRoute, Lines
from lbgen.engines.text import Literal
from lbgen.engines.users import users_path
from lbgen.plan.auth import BasicAuth


def _guard(at: HttpRoute, _: bool) -> Lines:
    auth = at.route.auth
    if isinstance(auth, BasicAuth):
        yield from _users(at, auth)


def _users(at: HttpRoute, auth: BasicAuth) -> Iterator[Line]:
    yield directive("auth_basic", at.on.definitions.text(auth.realm))
    yield directive("auth_basic_user_file", Literal(users_path(auth), "word"))


BASIC_AUTH = Contributor(guard=_guard)
