"""Signed tokens: HAProxy's own converters verify a token by the public keys of its issuer and read its claims."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from lbgen.engines.api import Objection, RenderedFile, refused
from lbgen.engines.haproxy.error_pages import challenge
from lbgen.engines.haproxy.statements import Acl, Statement, acl, is_set, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.jwt import jwt_auths, object_to_algorithms, pem
from lbgen.engines.text import Literal
from lbgen.plan.auth import JsonWebKey, JwtAuth, KeysUrl
from lbgen.plan.error_pages import ErrorPage, page_for
from lbgen.plan.model import Plan
from lbgen.plan.precedence import group
from lbgen.plan.tokens import SKEW

_TOKEN, _ALGORITHM, _VERIFIED = "txn.token", "txn.token_alg", "txn.token_verified"
_EXPIRES, _BEGINS, _AUDIENCE = "txn.token_exp", "txn.token_nbf", "txn.token_aud"
_AUDIENCES = 4  # that are read of a list
_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "ES256", "ES384", "ES512"})


def key_files(plan: Plan) -> Iterator[RenderedFile]:
    """The public keys of all issuers, each once."""
    keys = {_path(key): key for auth in jwt_auths(plan) for key in auth.file_keys}
    return (RenderedFile(path, pem(key)) for path, key in keys.items())


def _path(key: JsonWebKey) -> str:
    return f"keys/{hashlib.sha256(key.text.encode()).hexdigest()[:12]}.pem"


def _admission(on: HttpListener) -> Iterator[Statement]:
    auths = {key: route.auth for key, route in on.routes if isinstance(route.auth, JwtAuth)}
    if not auths:
        return
    every = list(auths)
    reads = (
        set_var(_TOKEN, "http_auth_bearer"),
        set_var(_ALGORITHM, f"var({_TOKEN}),jwt_header_query('$.alg')"),
        set_var(_EXPIRES, _claim("exp", "int")),
        set_var(_BEGINS, _claim("nbf", "int")),
    )
    yield from (on.per_route.restrict(each, every, "tokens") for each in reads)
    alike = group(((auth.issuer, auth.audiences, auth.keys, _page(on, key)), key) for key, auth in auths.items())
    for number, keys in enumerate(alike.values(), 1):
        checks = _checks(auths[keys[0]], challenge(on, keys[0], "Bearer"))
        yield from (on.per_route.restrict(each, keys, f"tokens.{number}") for each in checks)
    claims = group((pair, key) for key, auth in auths.items() for pair in auth.claims)
    for number, ((header, claim), keys) in enumerate(claims.items(), 1):
        is_there = acl(f"{_claim(claim)} -m reg '^[^[:cntrl:]]+$'")
        sets = statement("http-request set-header", Literal(header), f"%[{_claim(claim)}]", when=[is_there])
        yield on.per_route.restrict(sets, keys, f"claims.{number}")


def _page(on: HttpListener, key: str) -> ErrorPage | None:
    return page_for(on.plan.error_pages(on.listener, on.plan.route(on.keys[key].route)), 401)


def _checks(auth: JwtAuth, paged: Statement | None) -> Iterator[Statement]:
    """Statements that refuse a request without a token that holds, by `paged` where there is a page."""
    refusal = paged or statement("http-request return status 401 hdr WWW-Authenticate Bearer")

    def _refuse(when: Sequence[Acl]) -> Statement:
        return replace(refusal, acls=tuple(when))

    for key in auth.file_keys:
        has_algorithm = acl(f"var({_ALGORITHM}) -m str {key.algorithm}")  # that of the key, whatever a token says
        is_signed = acl(f"var({_TOKEN}),jwt_verify({key.algorithm},{_path(key)}) -m int 1")
        yield set_var(_VERIFIED, "bool(true)", [has_algorithm, is_signed])
    yield _refuse([~is_set(_VERIFIED)])
    yield _refuse([~acl(f"date({-SKEW}),sub({_EXPIRES}) -m int lt 0")])
    yield _refuse([acl(f"{_claim('nbf')} -m found"), ~acl(f"date({SKEW}),sub({_BEGINS}) -m int ge 0")])
    yield _refuse([~acl(f"{_claim('iss')} -m str --", Literal(auth.issuer))])
    is_meant = [Literal(each) for each in auth.audiences]
    for path in ("aud", *(f"aud[{n}]" for n in range(_AUDIENCES))):
        yield set_var(_AUDIENCE, "bool(true)", [acl(f"{_claim(path)} -m str --", *is_meant)])
    yield _refuse([~is_set(_AUDIENCE)])


def _claim(name: str, kind: str = "") -> str:
    how = f",'{kind}'" if kind else ""
    return f"var({_TOKEN}),jwt_payload_query('$.{name}'{how})"


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    yield from object_to_algorithms(plan, "HAProxy", _ALGORITHMS)
    for route in plan.routes:
        if isinstance(route.auth, JwtAuth) and isinstance(route.auth.keys, KeysUrl):
            why = "HAProxy reads keys from files only; write them to one (`curl -o keys.json URL`), and jwks: keys.json"
            yield Objection(refused(why), f"{route.auth.field}.jwks")


JWT = Contributor(admission=_admission, objections=_objections)
