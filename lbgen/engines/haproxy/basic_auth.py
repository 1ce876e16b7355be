"""User names and passwords: user lists, whose hashes the system's crypt checks, and a map for those of SHA-1."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from msgspec.structs import replace

from lbgen.engines.api import Objection, RenderedFile
from lbgen.engines.haproxy.error_pages import challenge
from lbgen.engines.haproxy.quote import word
from lbgen.engines.haproxy.run import USERS
from lbgen.engines.haproxy.statements import Acl, Statement, acl, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.engines.users import basic_auths, object_to_hashes, users_name, users_path
from lbgen.plan.auth import BasicAuth, Scheme
from lbgen.plan.error_pages import ErrorPage, page_for
from lbgen.plan.model import Plan
from lbgen.plan.precedence import group

_CRYPT = frozenset({Scheme.BCRYPT, Scheme.SHA512, Scheme.SHA256, Scheme.MD5})
_SHA1 = "txn.password"  # the SHA-1 hash of the password that a request has


def user_files(plan: Plan) -> Iterator[RenderedFile]:
    """The user lists of all routes in a file of their own, and the maps of users with SHA-1 hashes."""
    auths = {users_name(auth): auth for auth in basic_auths(plan)}
    if not auths:
        return
    lines = ["# The users of routes; a file of its own, which only HAProxy's user may read."]
    for name, auth in auths.items():
        if users := [f"    user {word(x.name)} password {word(x.hash)}" for x in auth.users if x.scheme in _CRYPT]:
            lines += ["", f"userlist {name}", *users]
    yield RenderedFile(USERS, "\n".join(lines) + "\n", secret=True)
    for auth in auths.values():
        if hashes := [f"{_key(x.name)} {x.hash.removeprefix('{SHA}')}" for x in auth.users if x.scheme is Scheme.SHA1]:
            title = "# user name in base64 -> SHA-1 of the password in base64"
            yield RenderedFile(_map(auth), "\n".join([title, *hashes]) + "\n", secret=True)


def _key(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


def _map(auth: BasicAuth) -> str:
    return users_path(auth).replace(".htpasswd", ".map")


def _admission(on: HttpListener) -> Iterator[Statement]:
    auths = {key: route.auth for key, route in on.routes if isinstance(route.auth, BasicAuth)}
    hashed = [key for key, auth in auths.items() if any(user.scheme is Scheme.SHA1 for user in auth.users)]
    if hashed:
        yield on.per_route.restrict(set_var(_SHA1, "http_auth_pass,sha1,base64"), hashed, "passwords")
    alike = group(((auth.users, auth.realm, _page(on, key)), key) for key, auth in auths.items())
    for number, keys in enumerate(alike.values(), 1):
        auth = auths[keys[0]]
        asks = statement("http-request auth realm", Literal(auth.realm), when=_unknown(auth))
        if _page(on, keys[0]) and (paged := challenge(on, keys[0], f'Basic realm="{auth.realm}"')) is not None:
            asks = replace(paged, acls=asks.acls)
        yield on.per_route.restrict(asks, keys, f"users.{number}")


def _page(on: HttpListener, key: str) -> ErrorPage | None:
    """The page of a route alone; that of its listener is HAProxy's message there."""
    return page_for(on.plan.route(on.keys[key].route).error_pages, 401)


def _unknown(auth: BasicAuth) -> Iterator[Acl]:
    """ACLs that all hold for a request without a known user and its password."""
    schemes = {user.scheme for user in auth.users}
    if schemes & _CRYPT:
        yield ~acl(f"http_auth({users_name(auth)})")
    if Scheme.SHA1 in schemes:
        yield ~acl(f"http_auth_user,base64,map_str({_map(auth)}),secure_memcmp({_SHA1})")


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    return object_to_hashes(plan, "HAProxy", _CRYPT | {Scheme.SHA1}, Scheme.BCRYPT)


BASIC_AUTH = Contributor(admission=_admission, objections=_objections)
