"""Mappings of a topology that lbgen/spec/route.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict

from lbgen.builders.listener import (
    Access,
)
from lbgen.builders.match import Match
from lbgen.builders.policy import (
    Buffering,
    Compression,
    Concurrency,
    Cors,
    Mirror,
    RateLimit,
    Retries,
    Timeouts,
)


class HeaderEdits(TypedDict, total=False):
    """Applied as remove, set, add."""

    set: Mapping[str, str]
    """replaces every line of that name"""
    add: Mapping[str, str]
    """appends a line"""
    remove: Sequence[str]
    """drops every line of that name"""


class Redirect(TypedDict, total=False):
    """Where the client is sent; what is left out stays as in the request. The query is always kept."""

    status: Literal[301, 302, 303, 307, 308]
    """301 and 308 are permanent; 307 and 308 keep the method"""
    scheme: Literal["http", "https"]
    """the request's when left out"""
    host: str
    """the request's when left out"""
    port: int
    """the given scheme's own, else the listener's, when left out"""
    path: str
    """replaces the whole path; the request's when left out"""
    prefix: str
    """replaces the matched prefix; it stays when left out"""


class Respond(TypedDict, total=False):
    """A response of the proxy; text/plain unless `headers` say otherwise."""

    status: Required[int]
    """the status of the answer"""
    body: str
    """its body"""
    headers: Mapping[str, str]
    """its headers; content-type is text/plain unless given"""


class Rewrite(TypedDict, total=False):
    """Changes of path and host for the endpoint. `prefix` replaces the matched prefix, `path` the whole path."""

    prefix: str
    """replaces the matched prefix; it stays when left out"""
    path: str
    """replaces the whole path; it stays when left out"""
    host: str
    """replaces the Host header; it stays when left out"""


class ForwardTarget(TypedDict, total=False):
    """One share of a split."""

    pool: Required[str]
    """a name of pools"""
    weight: int
    """its share of the requests"""
    request_headers: HeaderEdits
    """edits for this share alone, after those of the route; none when left out"""


class Route(TypedDict, total=False):
    """Exactly one of `forward`, `redirect`, `respond` is set. `hosts`, `match`, `listeners` None = not set."""

    name: Required[str]
    """its name in logs, findings and stats"""
    listeners: Sequence[str]
    """listeners it is attached to; every l7 listener when left out, an l4 route must name its own"""
    hosts: Sequence[str]
    """names without port; *.x covers any depth; SNI on l4; every host when left out"""
    match: Sequence[Match]
    """any of these; every path when left out"""
    sources: Sequence[str]
    """l4 only: addresses of clients; all when left out"""
    priority: int
    """higher is tried first"""
    forward: str | Sequence[str | ForwardTarget]
    """a pool, or a list of pools with weights; no default"""
    redirect: Redirect
    """instead of forward; no default"""
    respond: Respond
    """instead of forward: an answer of the proxy; no default"""
    rewrite: Rewrite
    """changes of path and host for the endpoint; none when left out"""
    timeouts: Timeouts
    """how long endpoints may take; the topology's when left out"""
    retries: Retries
    """extra tries; none when left out"""
    rate_limit: RateLimit
    """limit of requests per time; none when left out"""
    concurrency: Concurrency
    """limit of requests at a time; none when left out"""
    max_body: str
    """longer bodies get 413; the topology's when left out"""
    buffering: Buffering
    """whether bodies are buffered whole; the topology's when left out"""
    request_headers: HeaderEdits
    """edits of what the endpoint gets; none when left out"""
    response_headers: HeaderEdits
    """edits of what the client gets; none when left out"""
    mirror: Mirror | Sequence[Mirror]
    """copies of requests whose answer is dropped; none when left out"""
    cors: Cors
    """pages of other origins that may call; none when left out"""
    compression: Compression
    """which responses are compressed; none when left out"""
    access: Access
    """clients that are admitted, by address; all when left out"""
