"""Rewrites and redirects as regular expressions, against the contract's own."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.traefik.native.rewrites import build_redirect, build_rewrite
from lbgen.plan.model import PathKind, PathMatch, Redirect, Rewrite


def apply(data, kind: str, text: str) -> str:
    found = data[kind]
    return re.sub(found["regex"], lambda m: m.expand(re.sub(r"\$\{(\d)\}", r"\\\1", found["replacement"])), text)


@pytest.mark.parametrize(
    ("matched", "prefix", "path", "wanted"),
    [
        ("/api", "/v1", "/api/x", "/v1/x"),
        ("/api", "/v1", "/api", "/v1"),
        ("/api", "/", "/api", "/"),
        ("/api", "/", "/api/", "/"),
        ("/api", "/", "/api/x/y", "/x/y"),
        ("/", "/base", "/", "/base/"),
        ("/", "/base", "/x", "/base/x"),
        ("/a.b", "/c", "/a.b/d", "/c/d"),
    ],
)
def test_prefixes(matched, prefix, path, wanted):
    data = build_rewrite(Rewrite(prefix=prefix), PathMatch(PathKind.PREFIX, matched))
    assert apply(data, "replacePathRegex", path) == wanted


@pytest.mark.parametrize(
    ("redirect", "url", "wanted"),
    [
        (Redirect(301, host="b.test"), "http://a.test:8080/x?y", "http://b.test:8080/x?y"),
        (Redirect(301, scheme="https"), "http://a.test:8080/x?y", "https://a.test/x?y"),
        (Redirect(301, scheme="https", port=8443), "http://[::1]:8080/x", "https://[::1]:8443/x"),
        (Redirect(301, scheme="https", port=443), "http://a.test/x", "https://a.test/x"),
        (Redirect(301, path="/new"), "http://a.test/x?y", "http://a.test/new?y"),
        (Redirect(301, prefix="/to"), "http://a.test/from/x?y", "http://a.test/to/x?y"),
        (Redirect(301, prefix="/"), "http://a.test/from", "http://a.test/"),
    ],
)
def test_redirects(redirect, url, wanted):
    data = build_redirect(redirect, PathMatch(PathKind.PREFIX, "/from"))
    assert apply(data, "redirectRegex", url) == wanted


def test_a_dollar_in_a_replacement_is_doubled():
    data = build_redirect(Redirect(302, path="/$1"), PathMatch(PathKind.PREFIX, "/"))
    assert data["redirectRegex"]["replacement"] == "${1}/$$1${2}"
    assert "permanent" not in data["redirectRegex"]
