"""Users of basic authentication: their files beside the configuration, and hashes that an engine cannot check."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

from lbgen.engines.api import SECRETS, Objection, RenderedFile, refused
from lbgen.plan.auth import BasicAuth, Scheme
from lbgen.plan.model import Plan

_WRITE = {Scheme.BCRYPT: "htpasswd -B FILE {}", Scheme.SHA1: "htpasswd -s FILE {}"}
"""The command that writes a user with that kind of hash."""


def users_name(auth: BasicAuth) -> str:
    """The name of the users in files and sections: that of their file, and a digest, so that an engine which reads its
    files once loads them when they change."""
    return f"{auth.name}-{_digest(auth.htpasswd)}"


def users_path(auth: BasicAuth) -> str:
    """Their htpasswd file, relative to the engine's folder."""
    return f"{SECRETS}{users_name(auth)}.htpasswd"


def users_files(plan: Plan) -> Iterator[RenderedFile]:
    """The htpasswd files of all routes, each once."""
    files = {users_path(auth): auth.htpasswd for auth in basic_auths(plan)}
    return (RenderedFile(path, text, secret=True) for path, text in files.items())


def basic_auths(plan: Plan) -> list[BasicAuth]:
    """The users of all routes, each once."""
    return list(dict.fromkeys([route.auth for route in plan.routes if isinstance(route.auth, BasicAuth)]))


def object_to_hashes(plan: Plan, engine: str, checks: frozenset[Scheme], instead: Scheme) -> Iterator[Objection]:
    """A refusal for each file with a hash that is none of `checks`; `instead` is the kind to write."""
    for auth in basic_auths(plan):
        if others := [user for user in auth.users if user.scheme not in checks]:
            user, more = others[0], len(others) - 1
            command = _WRITE[instead].format(user.name)
            why = f'{engine} cannot check the {user.scheme} hash of "{user.name}"{f" and {more} more" if more else ""}'
            yield Objection(refused(f"{why}; write a {instead} one: {command}"), f"{auth.field}.users")


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    """Eight hex digits, as slow to compute as a password's hash: the configuration that names the file is no secret."""
    return hashlib.scrypt(text.encode(), salt=b"lbgen users", n=1 << 14, r=8, p=1, dklen=4).hex()
