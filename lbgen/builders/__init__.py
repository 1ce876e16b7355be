"""Types of the mappings that `load`, `Topology.replace` and its like take, for editors and type checkers.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from lbgen.builders.listener import (
    Access,
    Certificate,
    ClientCertificates,
    ClientTimeouts,
    Limits,
    Listener,
    ListenerTls,
    Paths,
    TlsDefaults,
)
from lbgen.builders.match import HeaderMatch, Match, PathMatch, Unless, ValueMatch
from lbgen.builders.model import Containers, EngineBlock, Metrics, Topology
from lbgen.builders.policy import (
    Buffering,
    Compression,
    Concurrency,
    Cors,
    Mirror,
    RateKey,
    RateLimit,
    Retries,
    Timeouts,
)
from lbgen.builders.pool import (
    ActiveHealth,
    Balance,
    Connections,
    Endpoint,
    HashKey,
    Health,
    PassiveHealth,
    Pool,
    PoolTls,
    Queue,
    Sticky,
)
from lbgen.builders.route import ForwardTarget, HeaderEdits, Redirect, Respond, Rewrite, Route
from lbgen.builders.tier import Tier

__all__ = [
    "Access",
    "ActiveHealth",
    "Balance",
    "Buffering",
    "Certificate",
    "ClientCertificates",
    "ClientTimeouts",
    "Compression",
    "Concurrency",
    "Connections",
    "Containers",
    "Cors",
    "Endpoint",
    "EngineBlock",
    "ForwardTarget",
    "HashKey",
    "HeaderEdits",
    "HeaderMatch",
    "Health",
    "Limits",
    "Listener",
    "ListenerTls",
    "Match",
    "Metrics",
    "Mirror",
    "PassiveHealth",
    "PathMatch",
    "Paths",
    "Pool",
    "PoolTls",
    "Queue",
    "RateKey",
    "RateLimit",
    "Redirect",
    "Respond",
    "Retries",
    "Rewrite",
    "Route",
    "Sticky",
    "Tier",
    "Timeouts",
    "TlsDefaults",
    "Topology",
    "Unless",
    "ValueMatch",
]
