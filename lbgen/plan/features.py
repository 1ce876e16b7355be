"""The features that a topology can use, by name; each engine answers each with a verdict.

A feature is named by the path of its field, with `listener`, `pool` and `route` for one of each. A field that is added
to the models is a feature without an entry here; below are the fields whose values ask for others, or for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from lbgen.plan.conditions import FEATURES
from lbgen.plan.values import Fact

if TYPE_CHECKING:
    from pydantic import BaseModel

Feature = str
"""A feature, named as in `--accept` and reports."""

ITEMS: Mapping[str, str] = {"listeners": "listener", "routes": "route", "pools": "pool"}
"""The fields of a topology whose items are called by one word in names."""

# Fields that ask for features by their values, in ways of `feature_uses`, or for none.
_BY_VALUE: Mapping[str, tuple[Feature, ...]] = {
    "listener.address": ("listener.address.dual_stack",),
    "listener.mode": ("listener.l7", "listener.l4.tcp"),
    "listener.protocol": ("listener.l4.udp",),
    "listener.http2": ("listener.http2",),
    "listener.client_ip": ("listener.client_ip", "listener.client_ip.forwarded"),
    "listener.timeouts": ("listener.timeouts",),
    "listener.paths": ("paths.strict", "paths.allow", "paths.normalize", "paths.verbatim"),
    "listener.headers_with_underscores": ("headers_with_underscores.drop", "headers_with_underscores.pass"),
    "listener.auth": (),
    "route.hosts": ("match.host", "match.host.wildcard", "match.sni"),
    "route.match": tuple(FEATURES.values()),
    "pool.endpoints": ("pool.weights", "pool.weights.zero", "pool.backup", "pool.endpoint_names", "pool.endpoint_ipv6"),
    "pool.balance": (
        *("pool.balance.round_robin", "pool.balance.random", "pool.balance.hash"),
        *("pool.balance.least_connections", "pool.balance.least_connections.weights"),
        *("pool.balance.source_hash", "pool.balance.source_hash.weights"),
    ),
    "pool.protocol": ("pool.protocol.http2", "pool.protocol.grpc"),
    "forwarded_headers": ("forwarded_headers", "forwarded_headers.real_ip", "forwarded_headers.forwarded"),
    "request_id": ("request_id",),
    "access_log": ("access_log", "access_log.l4"),  # l4: connections of L4 listeners over TCP
    "metrics": ("metrics", "metrics.l4"),  # l4: connections of L4 listeners, and their bytes
    "engines": (
        "engines.verbatim",
        "engines.verbatim.auth",  # text that authenticates clients
        "engines.forwarding.direct",  # replies bypass the balancer
    ),
    **dict.fromkeys(("listener.port", "listener.ports", "listener.tier", "route.name", "route.listeners"), ()),
    **dict.fromkeys(("listener.policies", "route.policies", "defaults"), ()),
    **dict.fromkeys(("pool.tier", "pool.listener", "pool.stand_ins", "version", "profile", "include", "tiers"), ()),
    **dict.fromkeys(("accept", "ignore", "client_timeouts", "containers", "resolvers"), ()),
}
# Mappings that are no features, but each field in them is one, and what its name begins with.
_PARTS = {
    **{path: path for path in ("route.request_headers", "route.response_headers", "route.rewrite", "route.auth")},
    **{path: path for path in ("pool.health", "pool.connections")},
    "route.timeouts": "timeouts",
}
# Features beside that of a field: of fields inside it, and of values.
_BESIDE = (
    *(
        "listener.tls.acme",
        "listener.tls.no_sni",
        "listener.tls.client",
        "listener.tls.curves",
        "listener.tls.passthrough",
    ),
    *("listener.max_connections.l4", "route.forward.split", "route.forward.request_headers"),
    *("route.retries.budget", "pool.proxy_protocol.l4"),
)
# By placeholder, wherever it stands.
VALUES: Mapping[Fact, Feature] = {fact: f"values.{fact}" for fact in Fact if fact is not Fact.ARGS}
# Clauses that no field controls.
_CLAUSES = (
    "framing",  # what a client could use to bypass a rule
    "framing.malformed",  # malformed requests: answered in another way, or passed on in one safe reading
    "headers.hop_by_hop",  # the fixed list of RFC 9110 7.6.1
    "headers.connection_nominated",  # what a Connection header names
    "route.websocket",
    "statuses",  # refusals: malformed, denied, over a limit, without a route
    "statuses.failures",  # answers where an endpoint failed
)


@cache
def all_features() -> tuple[Feature, ...]:
    """Every name, in the order of reports: that of the models, then what no field asks for."""
    from lbgen.spec.model import TopologyModel  # many commands have no topology, and need not wait for its models

    return (*features_of_model(TopologyModel), *VALUES.values(), *_CLAUSES)


def features_of_model(root: type[BaseModel]) -> tuple[Feature, ...]:
    """What the fields of a topology ask for; one at its root that items have too is a default for them."""
    from lbgen.spec.pydantic_errors import models_of

    items = {name: next(models_of(root.model_fields[key].annotation)) for key, name in ITEMS.items()}
    shared = {key for item in items.values() for key in item.model_fields}
    placed = [(f"{name}.{key}", field) for name, item in items.items() for key, field in item.model_fields.items()]
    placed += [(key, field) for key, field in root.model_fields.items() if key not in ITEMS and key not in shared]
    found = list[Feature]()
    for path, field in placed:
        if path in _PARTS:
            found += (f"{_PARTS[path]}.{key}" for inner in models_of(field.annotation) for key in inner.model_fields)
        else:
            found += _BY_VALUE.get(path, (path,))
        found += (each for each in _BESIDE if each.startswith(f"{path}."))
    return tuple(found)


@cache
def features_of_fields() -> frozenset[Feature]:
    """The names that are paths, of fields that ask for a feature by being set."""
    inherited = [each for each in all_features() if each.startswith("timeouts.")]
    return frozenset(all_features()).difference(inherited, _CLAUSES, VALUES.values(), *_BY_VALUE.values())


def check_feature(name: Feature) -> Feature:
    """`name`; ValueError where there is no such feature, as of one that is misspelt in lbgen."""
    if name not in all_features():
        raise ValueError(f"there is no feature {name!r}")
    return name
