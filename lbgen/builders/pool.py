"""Mappings of a topology that lbgen/spec/pool.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict

from lbgen.builders.listener import (
    Certificate,
)


class Endpoint(TypedDict, total=False):
    """One server of a pool."""

    address: Required[str]
    """host:port; a name is resolved while the engine runs"""
    weight: int
    """share of the traffic; 0 drains"""
    backup: bool
    """serves only when no other endpoint is up"""


class HashKey(TypedDict, total=False):
    """The part of a request that is hashed; exactly one is set."""

    header: str
    """requests with the same value of this header go to the same endpoint; no default"""
    cookie: str
    """the same by a cookie; no default"""
    query: str
    """the same by a query parameter; no default"""


class ActiveHealth(TypedDict, total=False):
    """Checks that the proxy makes: HTTP with `path`, else a connection."""

    path: str
    """path requested by GET; only a connection is opened when left out"""
    port: int
    """where to check; the endpoint's own port when left out"""
    interval: str
    """time between two checks"""
    timeout: str
    """time within which a check must succeed"""
    fall: int
    """failures in a row that take an endpoint out"""
    rise: int
    """successes in a row that bring it back"""
    expect: Sequence[int | str]
    """statuses that count as success"""


class PassiveHealth(TypedDict, total=False):
    """Failures seen in real traffic."""

    failures: Required[int]
    """failures in a row that take an endpoint out"""
    eject_for: Required[str]
    """how long it stays out"""


class Queue(TypedDict, total=False):
    """Requests that wait for a free endpoint."""

    size: Required[int]
    """requests that may wait"""
    timeout: Required[str]
    """how long one waits before it gets 503"""


class Sticky(TypedDict, total=False):
    """A cookie that keeps a client at its endpoint."""

    cookie: Required[str]
    """the cookie's name"""
    ttl: str
    """how long the cookie lives; the session of the browser when left out"""
    secure: bool
    """whether the cookie is sent over TLS only"""
    secret: str
    """file whose content is the key of the cookie's values, at least 16 bytes; a key derived from the
    topology's name, which can be guessed, when left out"""


class Balance(TypedDict, total=False):
    """How an endpoint is chosen: a word, or `{ hash: ... }`; exactly one is set."""

    method: Literal["round_robin", "least_connections", "random", "source_hash"]
    """the short form is the word alone; no default"""
    hash: HashKey
    """by a part of the request; no default"""


class Health(TypedDict, total=False):
    """How failed endpoints are detected."""

    active: ActiveHealth
    """checks that the proxy makes by itself; none when left out"""
    passive: PassiveHealth
    """failures seen in real traffic; not counted when left out"""


class Connections(TypedDict, total=False):
    """Connections to the endpoints."""

    keepalive: int
    """idle connections kept, per worker of the engine; 64 when left out"""
    keepalive_idle: str
    """how long an unused connection is kept, shorter than the endpoints keep theirs; 4s when left out"""
    max_per_endpoint: int
    """requests (l4: connections) at a time to one endpoint; no limit when left out"""
    queue: Queue
    """requests that wait for a free endpoint; none wait when left out"""


class PoolTls(TypedDict, total=False):
    """TLS to the endpoints; their certificates are verified unless `verify: false`."""

    ca: str
    """PEM file with the authorities of the endpoints' certificates; the system's when left out"""
    server_name: str
    """server name that is sent and verified; the endpoint's host when left out"""
    certificate: Certificate
    """certificate shown to the endpoints; none when left out"""
    verify: bool
    """whether the endpoints' certificates are verified"""


class Pool(TypedDict, total=False):
    """Endpoints and how they are used."""

    endpoints: Sequence[Endpoint]
    """its endpoints; needed unless tier is given"""
    tier: str
    """instead of endpoints: the replicas of that tier; no default"""
    listener: str
    """listener of the tier that the pool leads to; needed if the tier has several, no default"""
    balance: Literal["round_robin", "least_connections", "random", "source_hash"] | Balance
    """how an endpoint is chosen; round_robin when left out"""
    health: Health
    """how failed endpoints are detected; they are not when left out"""
    connections: Connections
    """connections to the endpoints; 64 idle ones are kept when left out"""
    sticky: Sticky
    """a cookie that keeps a client at its endpoint; none when left out"""
    tls: PoolTls
    """TLS to the endpoints; plain text when left out"""
    protocol: Literal["http1", "http2", "grpc"]
    """what the endpoints speak; http1 when left out"""
    proxy_protocol: Literal["v1", "v2"]
    """a PROXY header in front of each connection; none when left out"""
    slow_start: str
    """time in which a recovered endpoint grows to its full share; at once when left out"""
    stand_ins: bool
    """whether `lbgen up` starts stand-ins for its endpoints; unless they are containers when left out"""
