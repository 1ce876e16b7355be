"""Rewrites as regular expressions, and what the plugin makes redirects of."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.traefik.rewrites import build_redirect, build_rewrite
from lbgen.plan.model import Redirect, Rewrite
from lbgen.plan.path_conditions import ExactPath, PrefixPath
from tests.support.plans import by_match


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
    data = build_rewrite(Rewrite(prefix=prefix), PrefixPath(matched))
    assert apply(data, "replacePathRegex", path) == wanted


LISTENER = by_match([]).listeners[0]  # of port 8080


@pytest.mark.parametrize(
    ("redirect", "wanted"),
    [
        (Redirect(308, scheme="https", port=8443), {"scheme": "https", "port": ":8443"}),
        (Redirect(303, port=80), {"scheme": "http"}),
        (Redirect(302, path="/$1"), {"scheme": "http", "port": ":8080", "path": "/$1", "whole": True}),
    ],
)
def test_redirects(redirect, wanted):
    data = build_redirect(redirect, PrefixPath("/from"), LISTENER, "r")
    assert data == {"plugin": {"lbgen": {"redirect": {"status": redirect.status, **wanted}}}}


def test_a_redirect_of_an_exact_path_has_no_rest():
    data = build_redirect(Redirect(302, prefix="/to/"), ExactPath("/from"), LISTENER, "r")
    assert data["plugin"]["lbgen"]["redirect"]["whole"] is True
