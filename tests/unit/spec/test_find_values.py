"""Values by their type."""

from __future__ import annotations

import lbgen
from lbgen.spec.error_pages import ErrorPage
from lbgen.spec.find_values import find_values
from lbgen.spec.values import FilePath

TOPOLOGY = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 80, "auth": {"basic": {"users": "staff.htpasswd"}}}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}], "sticky": {"cookie": "LB", "secret": "key"}}},
    "acme_challenge": {"directory": "a/folder"},
    "error_pages": {"404": {"file": "404.html"}},
    "routes": [
        {
            "name": "r",
            "forward": "app",
            "auth": {"jwt": {"issuer": "i", "audience": ["a"], "jwks": "keys.json"}},
            "error_pages": {"5xx": {"body": "down"}, "503": {"file": "503.html"}},
        },
        {
            "name": "s",
            "match": [{"path": {"prefix": "/s"}}],
            "forward": "app",
            "auth": {"jwt": {"issuer": "i", "audience": ["a"], "jwks": "http://10.0.0.9/keys"}},
        },
    ],
}


def test_texts_of_an_annotated_type_and_no_others() -> None:
    assert dict(find_values(lbgen.load(TOPOLOGY).model, FilePath)) == {
        "listeners.web.auth.basic.users": "staff.htpasswd",
        "pools.app.sticky.secret": "key",
        "routes[0].auth.jwt.jwks": "keys.json",
        "routes[0].error_pages.503.file": "503.html",
        "error_pages.404.file": "404.html",
    }


def test_models_in_mappings_below_others() -> None:
    found = find_values(lbgen.load(TOPOLOGY).model.routes[0], ErrorPage, "here")
    assert [(field, page.file) for field, page in found] == [
        ("here.error_pages.5xx", None),
        ("here.error_pages.503", "503.html"),
    ]
