"""Whether text for one engine (`engines.<name>.<place>`) authenticates clients, which no other engine would then do."""

from __future__ import annotations

import re

# Directives, filters and middlewares; a line that begins with # is a comment in each engine's configuration.
_WORDS = re.compile(
    r"\bauth_basic(?!_)\s+(?!off\b)[^;]|\bauth_(?:request|jwt|oidc)\s+(?!off\b)[^;]|\bauth_delay\s"  # nginx
    r"|\bhttp-request\s+auth\b|\bhttp_auth(?:_group)?\(|\bjwt_verify\b"  # HAProxy
    r"|\bext_authz\b|\bjwt_authn\b|\bhttp\.(?:basic_auth|oauth2|api_key_auth)\b"  # Envoy
    r"|\b(?:basic|digest|forward)Auth\b",  # Traefik
    re.IGNORECASE,
)
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def find_authentication(text: str) -> str | None:
    """The word of `text` that asks clients who they are; None where there is none."""
    found = _WORDS.search(_COMMENT.sub("", text))
    return None if found is None else " ".join(re.split(r"[\s(]+", found[0])[: 2 if "-" in found[0] else 1])
