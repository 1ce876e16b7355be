"""Mappings of a topology that lbgen/spec/policy.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict


class Timeouts(TypedDict, total=False):
    """0 = no limit, None = not set here."""

    connect: str
    """to an endpoint; the topology's when left out"""
    response: str
    """from request sent to response head, per try; the topology's when left out"""
    idle: str
    """longest silence of a body or tunnel, either direction; the topology's when left out, else the time of
    `response`"""
    request: str
    """all tries, to the last byte; no limit when left out"""


class Retries(TypedDict, total=False):
    """Extra tries, each at another endpoint when there is one."""

    max: Required[int]
    """extra tries"""
    on: Required[Sequence[Literal["connect_failure", "reset", "timeout"] | int]]
    """conditions that are retried: words and statuses"""
    methods: Literal["idempotent", "all"]
    """idempotent: GET, HEAD, OPTIONS, PUT, DELETE; a failed connection is retried for any"""
    budget: float | str
    """retries as a share of active requests; no limit when left out"""


class RateKey(TypedDict, total=False):
    """What is counted together: `client_ip`, `route`, or `{ header: NAME }`; exactly one is set."""

    by: Literal["client_ip", "route"]
    """the short form is the word alone; no default"""
    header: str
    """the value of a header; a request without it is not limited; no default"""


class Buffering(TypedDict, total=False):
    """Whether bodies are buffered whole before they are forwarded; None = as the engine does."""

    request: bool
    """buffer whole requests before they are forwarded; as the engine does when left out"""
    response: bool
    """buffer whole responses before they are forwarded; as the engine does when left out"""


class Mirror(TypedDict, total=False):
    """A copy of requests; its response is dropped."""

    pool: Required[str]
    """where the copies go"""
    percent: float | str
    """how many of the requests are copied"""


class Cors(TypedDict, total=False):
    """The origins whose pages may call; the proxy answers preflights."""

    origins: Required[Sequence[str]]
    """origins whose pages may call, as browsers send them (apps and files too: `capacitor://localhost`,
    `null`); `*.` stands for any name below, `:*` for any port, `*` for all"""
    methods: Sequence[str]
    """methods that they may use"""
    headers: Sequence[str]
    """request headers that they may send"""
    expose_headers: Sequence[str]
    """response headers that they may read"""
    credentials: bool
    """whether cookies are sent"""
    max_age: str
    """how long a browser keeps the answer; the browser's own when left out"""


class Compression(TypedDict, total=False):
    """Which responses are compressed."""

    types: Required[Sequence[str]]
    """media types of responses that are compressed"""
    min_size: str
    """smaller responses are not; 1KiB when left out"""


class RateLimit(TypedDict, total=False):
    """A limit of requests per time; `burst` = how many may arrive at once."""

    rate: Required[str]
    """requests per second, minute or hour; more get 429"""
    burst: int
    """how many may arrive at once; the rate of one second, at least 1, when left out"""
    key: Required[Literal["client_ip", "route"] | RateKey]
    """what is counted together"""


class Concurrency(TypedDict, total=False):
    """A limit of requests at a time."""

    max: Required[int]
    """requests at a time; more get 429"""
    key: Required[Literal["client_ip", "route"] | RateKey]
    """what is counted together"""
