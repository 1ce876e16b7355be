"""Authentication in the plan: files of users and keys, which auth a route has, services by URL."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.plan.auth import AuthFileError, BasicAuth, ForwardAuth, JwtAuth, KeysUrl, Scheme, read_keys, read_users
from lbgen.plan.overlay import with_real_endpoints
from lbgen.plan.tokens import TokenError, claim, read_token
from lbgen.runtime.common.tokens import ISSUER, public_keys, token

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

HERE = Path(__file__).parent
USERS = {"basic": {"users": str(HERE / "users.htpasswd"), "realm": "Staff"}}
_NUMBERS = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
RSA = {"kty": "RSA", "n": base64.urlsafe_b64encode(_NUMBERS.n.to_bytes(256)).rstrip(b"=").decode(), "e": "AQAB"}
EC = {key: value for key, value in json.loads(public_keys())["keys"][0].items() if key in ("kty", "crv", "x", "y")}
HASHES = {
    "$2y$05$47UkfXZ1KVbT38wILcPO5OlGkwk0PccBni8MpCCDhH9Fgzev1y3vm": Scheme.BCRYPT,
    "$6$abcdefgh$" + "a" * 86: Scheme.SHA512,
    "$6$rounds=5000$abcdefgh$" + "a" * 86: Scheme.SHA512,
    "$5$abcdefgh$" + "a" * 43: Scheme.SHA256,
    "$apr1$abcdefgh$" + "a" * 22: Scheme.APR1,
    "$1$abcdefgh$" + "a" * 22: Scheme.MD5,
    "{SHA}" + "a" * 27 + "=": Scheme.SHA1,
}


def planned(*routes: Any, **listeners: Any) -> Plan:
    topology = {
        "version": 1,
        "name": "auth",
        "listeners": listeners or {"web": {"port": 8080}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "sso": {"endpoints": [{"address": "sso:80"}]}},
        "routes": [{"name": f"r{n}", "forward": "app", **route} for n, route in enumerate(routes)],
    }
    return lbgen.plan(lbgen.load(topology))


def test_users_are_read_with_the_kind_of_their_hash(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# comment\n\n" + "".join(f"u{n}:{hash}\r\n" for n, hash in enumerate(HASHES)))
    users = read_users(file)
    assert [user.scheme for user in users] == list(HASHES.values())
    assert [user.hash for user in users] == list(HASHES)
    assert not any(user.hash in repr(users) for user in users)
    assert len({repr(user).partition("(")[2] for user in users}) == len(users)  # another password is another plan


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("# nobody\n", None),
        ("ann\n", 1),
        ("\nann:secret\n", 2),
        (":$apr1$abcdefgh$" + "a" * 22, 1),
        ("ann:{SHA}abc", 1),
        ("ann:", 1),
        ("a\tb:{SHA}" + "a" * 27 + "=", 1),
        ("ann:{SHA}" + "a" * 27 + "=\nann:{SHA}" + "b" * 27 + "=", 2),
        ("ann:{SHA}" + "a" * 27 + "=:more", 1),
    ],
)
def test_a_malformed_line_has_its_number(text: str, line: int | None, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(text)
    with pytest.raises(AuthFileError) as error:
        read_users(file)
    assert error.value.line == line
    assert "secret" not in str(error.value)


def test_keys_are_public_and_have_one_algorithm(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    private = {**RSA, "kid": "a", "d": "AQAB", "p": "AQAB"}
    file.write_text(json.dumps({"keys": [private, {**EC, "kid": "b"}, {**RSA, "use": "enc"}]}))
    keys = read_keys(file)
    assert [(key.kid, key.algorithm) for key in keys] == [("a", "RS256"), ("b", "ES256")]
    assert json.loads(keys[0].text) == {**RSA, "alg": "RS256", "kid": "a", "use": "sig"}


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [{"kty": "oct", "k": "AQAB"}],
        [{**RSA, "alg": "HS256"}],
        [{**RSA, "alg": "none"}],
        [{**EC, "alg": "ES384"}],
        [{**EC, "crv": "secp256k1"}],
        [{"kty": "RSA", "n": "AQAB"}],
        [{**RSA, "n": "not base64"}],
        [{**EC, "x": "AQAB"}],
        [RSA, EC],
        [{**RSA, "kid": 7}],
        {},
        "keys",
    ],
)
def test_keys_that_cannot_be_used(keys: Any, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(json.dumps({"keys": keys}))
    with pytest.raises(AuthFileError):
        read_keys(file)


def test_a_token_is_signed_by_the_key_of_its_algorithm(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(public_keys())
    jwt = {"issuer": ISSUER, "audience": ["shop"], "jwks": str(file), "claims_to_headers": {"x-user": "sub"}}
    auth = planned({"auth": {"jwt": jwt}}).routes[0].auth
    assert isinstance(auth, JwtAuth)
    assert read_token(token(), auth)["sub"] == "ann"
    assert read_token(token({"aud": ["other", "shop"]}), auth)
    for made in ("none", "HS256", "foreign", "unsigned"):
        with pytest.raises(TokenError):
            read_token(token(made=made), auth)
    for claims in ({"exp": 1}, {"exp": None}, {"nbf": 4_102_444_700}, {"iss": "other"}, {"aud": "shopping"}):
        with pytest.raises(TokenError):
            read_token(token(claims), auth)
    assert claim({"sub": "a\nb", "n": 7, "user": {"mail": "a@b"}}, "sub") is None
    assert claim({"user": {"mail": "a@b"}}, "user.mail") == "a@b"


def test_a_route_has_its_own_auth_or_that_of_its_listener() -> None:
    guarded = {"port": 8080, "auth": USERS}
    health, api = ([{"path": {"prefix": path}}] for path in ("/health", "/api"))
    routes: list[Any] = [{"match": health, "auth": "none"}, {"match": api, "auth": {"forward": {"pool": "sso"}}}, {}]
    plan = planned(*routes, web=guarded)
    opened, own, rest = (route.auth for route in plan.routes)
    assert opened is None
    assert isinstance(own, ForwardAuth)
    assert isinstance(rest, BasicAuth)
    assert (rest.realm, [user.name for user in rest.users]) == ("Staff", ["ann", "ben"])
    assert {use.field for use in plan.uses if use.feature.startswith("route.auth")} == {
        "routes[1].auth.forward",
        "routes[2].auth.basic",
    }


def test_a_service_is_asked_with_defaults() -> None:
    plan = planned({"auth": {"forward": {"pool": "sso"}}})
    auth = plan.routes[0].auth
    assert isinstance(auth, ForwardAuth)
    assert (auth.pool, auth.target, auth.host) == ("sso", "/", "sso")
    assert auth.request_headers == ("authorization", "cookie")
    assert (auth.connect, auth.response) == (5000, 60_000)
    assert [pool.name for pool in plan.pools] == ["app", "sso"]


@pytest.mark.parametrize(
    ("url", "pool", "target", "host"),
    [
        ("http://127.0.0.1:9091/verify?x=1", "127.0.0.1-9091", "/verify?x=1", "127.0.0.1:9091"),
        ("http://sso", "sso-80", "/", "sso"),
        ("https://sso:443/a", "sso-443", "/a", "sso"),
        ("http://[::1]:81", "1-81", "/", "[::1]:81"),
    ],
)
def test_a_service_by_url_is_a_pool(url: str, pool: str, target: str, host: str) -> None:
    forward = {"forward": {"url": url}}
    plan = planned({"auth": forward}, {"match": [{"path": {"prefix": "/x"}}], "auth": forward})
    for route in plan.routes:
        assert isinstance(route.auth, ForwardAuth)
        assert (route.auth.pool, route.auth.target, route.auth.host) == (pool, target, host)
    assert [each.name for each in plan.pools] == ["app", pool]
    assert (plan.pool(pool).tls is not None) == url.startswith("https")


def test_tokens() -> None:
    jwt = {"issuer": "i", "audience": ["a", "b"], "jwks": "http://sso/keys", "claims_to_headers": {"X-User": "sub"}}
    auth = planned({"auth": {"jwt": jwt}}).routes[0].auth
    assert isinstance(auth, JwtAuth)
    assert auth.keys == KeysUrl("sso-80", "/keys", "sso")
    assert auth.claims == (("x-user", "sub"),)
    assert auth.identity_headers == ("x-user",)


@pytest.mark.parametrize("value", ["admin", "absent", {"regex": "a.*"}])
def test_no_rule_is_on_what_auth_makes(value: object) -> None:
    jwt = {"issuer": "i", "audience": ["a"], "jwks": "http://sso/keys", "claims_to_headers": {"X-User": "sub"}}
    guarded = {"auth": {"jwt": jwt}, "match": [{"path": {"prefix": "/x"}}], "listeners": ["web"]}
    asks = {"match": [{"headers": {"x-user": value}}]}
    listeners = {"web": {"port": 8080}, "other": {"port": 8081}}
    with pytest.raises(LbgenError) as raised:
        planned(guarded, {**asks, "listeners": ["other", "web"]}, **listeners)
    assert [each.code for each in raised.value.diagnostics] == ["LB286"]
    assert 'auth of route "r0"' in str(raised.value)
    planned(guarded, {**asks, "listeners": ["other"]}, **listeners)


@pytest.mark.parametrize(
    ("auth", "service"),
    [
        ({"forward": {"pool": "sso"}}, "sso"),
        ({"forward": {"url": "http://10.0.0.9:9091/verify"}}, "10.0.0.9-9091"),
        ({"jwt": {"issuer": ISSUER, "audience": ["shop"], "jwks": "http://10.0.0.9/keys"}}, "10.0.0.9-80"),
    ],
)
def test_no_stand_in_admits_requests_to_endpoints_of_their_own(auth: dict[str, Any], service: str) -> None:
    def real(plan: Plan) -> set[str]:
        return {pool.name for pool in plan.pools if pool.real}

    topology = {
        "version": 1,
        "name": "auth",
        "listeners": {"web": {"port": 8080}},
        "pools": {
            "app": {"endpoints": [{"address": "10.0.0.1:80"}]},
            "open": {"endpoints": [{"address": "10.0.0.2:80"}], "stand_ins": False},
            "sso": {"endpoints": [{"address": "10.0.0.3:80"}]},
        },
        "routes": [
            {"name": "open", "match": [{"path": {"prefix": "/open"}}], "forward": "open"},
            {"name": "app", "forward": "app", "auth": auth},
        ],
    }
    plan = lbgen.plan(lbgen.load(topology))
    assert real(plan) == {"open"}
    assert real(with_real_endpoints(plan, ["app"])) == {"open", "app", service}
    topology["pools"]["app"]["stand_ins"] = False
    assert real(lbgen.plan(lbgen.load(topology))) == {"open", "app", service}
    topology["pools"]["sso"]["stand_ins"] = True  # as it is asked for
    assert ("sso" in real(lbgen.plan(lbgen.load(topology)))) is False
