"""Which text for one engine authenticates clients."""

from __future__ import annotations

import pytest

from lbgen.engine_words import find_authentication


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('auth_basic "staff";\nauth_basic_user_file /staff;', "auth_basic"),
        ("location / { auth_request /verify; }", "auth_request"),
        ('auth_jwt "shop" token=$cookie_token;', "auth_jwt"),
        ("http-request auth realm staff unless { http_auth(staff) }", "http-request auth"),
        ("http-request deny unless { http_auth_group(users) staff }", "http_auth_group"),
        ("http-request deny unless { var(txn.b),jwt_verify(alg,key) -m int 1 }", "jwt_verify"),
        ("- { name: envoy.filters.http.ext_authz }", "ext_authz"),
        ("- { name: envoy.filters.http.jwt_authn }", "jwt_authn"),
        ("- { name: envoy.filters.http.basic_auth }", "http.basic_auth"),
        ("http: { middlewares: { a: { forwardAuth: { address: x } } } }", "forwardAuth"),
        ("http: { middlewares: { a: { basicAuth: { users: [x] } } } }", "basicAuth"),
        ("# auth_basic staff;\ngzip on;", None),
        ("auth_basic off;", None),
        ("log_subrequest on;", None),
        ("http-request set-header authorization x", None),
    ],
)
def test_the_word_that_asks_clients_who_they_are(text: str, word: str | None) -> None:
    assert find_authentication(text) == word
