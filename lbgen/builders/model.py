"""Mappings of a topology that lbgen/spec/model.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict

from lbgen.builders.listener import (
    ClientTimeouts,
    Limits,
    Listener,
    Paths,
    TlsDefaults,
)
from lbgen.builders.policy import (
    Buffering,
    Timeouts,
)
from lbgen.builders.pool import (
    Pool,
)
from lbgen.builders.route import HeaderEdits, Route
from lbgen.builders.tier import Tier

EngineBlock = Mapping[str, str]
"""Settings of one engine. Any other key is a verbatim block: an insertion point and its text."""


class Metrics(TypedDict, total=False):
    """Where the counts of requests are served as Prometheus text, by `lbgen agent`."""

    port: Required[int]
    """the port it listens on"""
    address: str
    """this host only when left out"""


class Containers(TypedDict, total=False):
    """Limits of each container in the docker runtime, and the networks that containers join."""

    memory: str
    """memory of each container; the profile's when left out"""
    pids: int
    """processes and threads of each container; the profile's when left out"""
    networks: Sequence[str]
    """docker networks to join, where endpoints are known by name"""


class Topology(TypedDict, total=False):
    """The root of a topology. None = not set here or in the profile."""

    version: Required[Literal[1]]
    """the version of this format"""
    name: Required[str]
    """what ps, logs and down call it"""
    profile: Literal["edge", "internal-l4", "low-latency", "minimal", "production"] | str
    """a built-in profile or ./file.yaml; production when left out"""
    include: Sequence[str]
    """files with more pools and routes, `*` for any name; relative to the file that says so"""
    tiers: Mapping[str, Tier]
    """layers of proxies, one before the other; listeners name theirs; one layer when left out"""
    listeners: Mapping[str, Listener]
    """ports that take traffic, by name"""
    pools: Mapping[str, Pool]
    """endpoints that are the same service, by name"""
    routes: Sequence[Route]
    """which requests go where; the most specific one wins, not the first"""
    engines: Mapping[str, EngineBlock]
    """settings that are not portable, by engine"""
    accept: Mapping[str, Sequence[str]]
    """features that an engine may serve approximately, by engine, `all` = any engine; `all` in a list = any
    feature"""
    ignore: Sequence[str]
    """codes of warnings and advice that check leaves out"""
    paths: Literal["strict", "normalize", "verbatim"] | Paths
    """default for all listeners; strict when left out"""
    headers_with_underscores: Literal["drop", "pass"]
    """default for all l7 listeners; drop when left out"""
    timeouts: Timeouts
    """default for all forward routes; the profile's when left out"""
    client_timeouts: ClientTimeouts
    """default for all listeners; the profile's when left out"""
    limits: Limits
    """default for all l7 listeners; the engine's own limits when left out"""
    tls: TlsDefaults
    """default for all listeners that terminate TLS; intermediate when left out"""
    max_body: str
    """default for all l7 forward routes; no limit when left out"""
    buffering: Buffering
    """default for all l7 forward routes; as the engine does when left out"""
    response_headers: HeaderEdits
    """for all l7 routes; a route's own edits of a header replace it; none when left out"""
    forwarded_headers: bool
    """send X-Forwarded-For, -Proto, -Host and -Port; the profile's when left out"""
    request_id: bool
    """send X-Request-Id; the profile's when left out"""
    access_log: Literal["json", "none"]
    """json: of requests one schema on all engines; the profile's when left out"""
    metrics: Metrics
    """serve counts, times and states as Prometheus text; not served when left out"""
    containers: Containers
    """of the docker runtime: limits of each, networks; the profile's when left out"""
    resolvers: Sequence[str]
    """DNS servers for the names of endpoints; the system's when left out"""
