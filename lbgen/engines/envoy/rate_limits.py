"""Rate limits: one filter with the buckets of all routes, so that all rules of a route share its buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate
from lbgen.engines.document import Commented
from lbgen.engines.envoy.mutations import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.predicates import has_mapped_addresses
from lbgen.engines.envoy.protobuf import ENABLED, extension
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute, http_routes
from lbgen.plan.model import Listener, Plan, Route
from lbgen.plan.policy import KeyKind, RateLimit

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "rate-limit"
_NO_LIMIT = 1_000_000_000
_KEYS = 100_000  # buckets kept; the one idle for longest is dropped first
_ROUTE = "route"
_METADATA = "lbgen"
_CLIENT = "client"
_CLIENT_HEADER = "x-lbgen-client"  # between two filters
_HUNDRED: dict[str, Data] = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


def _manager(on: HttpListener) -> dict[str, Data]:
    limits = {route.name: route.rate_limit for route in on.routes if route.rate_limit is not None}
    if not limits:
        return {}
    mapped = has_mapped_addresses(on.listener)
    named = mapped and any(limit.key.kind is KeyKind.CLIENT_IP for limit in limits.values())
    return {"http_filters": [*(_client_filters() if named else ()), _filter(limits, mapped=mapped)]}


def _route(at: HttpRoute) -> dict[str, Data]:
    """The filter, and metadata with the route's name, which it reads."""
    if at.route.rate_limit is None:
        return {}
    return {
        "metadata": {"filter_metadata": {_METADATA: {_ROUTE: at.route.name}}},
        "typed_per_filter_config": {_FILTER: ENABLED},
    }


def _client_filters() -> list[Data]:
    """The filters that write the client's address as a key of limits, where it may be an IPv4 address in IPv6 form."""
    address = header_option(_CLIENT_HEADER, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", SET)
    plain: Data = {"pattern": {"regex": "^::ffff:"}, "substitution": ""}
    rule: Data = {
        "header": _CLIENT_HEADER,
        "on_header_present": {"metadata_namespace": _METADATA, "key": _CLIENT, "regex_value_rewrite": plain},
        "remove": True,
    }
    return [
        build_mutation_filter("client-address", [{"append": address}]),
        Commented(
            "An IPv4 address in IPv6 form has the bucket of the IPv4 address.",
            extension("client-key", "filters.http.header_to_metadata.v3.Config", {"request_rules": [rule]}),
        ),
    ]


def _filter(limits: Mapping[str, RateLimit], *, mapped: bool) -> dict[str, Data]:
    keys = dict.fromkeys((limit.key.kind, limit.key.name) for limit in limits.values())
    return extension(
        _FILTER,
        "filters.http.local_ratelimit.v3.LocalRateLimit",
        {
            "stat_prefix": _FILTER,
            "filter_enabled": _HUNDRED,
            "filter_enforced": _HUNDRED,
            "token_bucket": {"max_tokens": _NO_LIMIT, "tokens_per_fill": _NO_LIMIT, "fill_interval": "1s"},
            "always_consume_default_token_bucket": False,
            "rate_limited_as_resource_exhausted": True,  # to gRPC clients, which take UNAVAILABLE for an outage
            "max_dynamic_descriptors": _KEYS,
            "rate_limits": [
                {"actions": [_route_action(), *_key_actions(kind, name, mapped=mapped)]} for kind, name in keys
            ],
            "descriptors": [_descriptor(name, limit, mapped=mapped) for name, limit in limits.items()],
        },
        disabled=True,
    )


def _route_action() -> dict[str, Data]:
    key: Data = {"key": _METADATA, "path": [{"key": _ROUTE}]}
    return {"metadata": {"descriptor_key": _ROUTE, "metadata_key": key, "source": "ROUTE_ENTRY"}}


def _key_actions(kind: KeyKind, name: str, *, mapped: bool) -> list[dict[str, Data]]:
    if kind is KeyKind.CLIENT_IP and mapped:
        key: Data = {"key": _METADATA, "path": [{"key": _CLIENT}]}
        return [{"metadata": {"descriptor_key": _CLIENT, "metadata_key": key, "source": "DYNAMIC"}}]
    if kind is KeyKind.CLIENT_IP:
        return [{"remote_address": {}}]
    if kind is KeyKind.HEADER:
        return [{"request_headers": {"header_name": name, "descriptor_key": _header_key(name)}}]
    return []


def _header_key(name: str) -> str:
    return f"header {name}"


def _descriptor(route: str, limit: RateLimit, *, mapped: bool) -> dict[str, Data]:
    entries: list[Data] = [{"key": _ROUTE, "value": route}]
    if limit.key.kind is KeyKind.CLIENT_IP:
        entries.append({"key": _CLIENT if mapped else "remote_address"})
    elif limit.key.kind is KeyKind.HEADER:
        entries.append({"key": _header_key(limit.key.name)})
    bucket: Data = {"max_tokens": limit.burst, "tokens_per_fill": limit.amount, "fill_interval": f"{limit.seconds}s"}
    return {"entries": entries, "token_bucket": bucket}


def _by_client(_: Listener, routes: Sequence[Route]) -> bool:
    return any(route.rate_limit is not None and route.rate_limit.key.kind is KeyKind.CLIENT_IP for route in routes)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route, listeners in http_routes(plan):
        if route.rate_limit is not None and len(listeners) > 1:
            note = (
                "each listener counts by itself, so a client may have the rate on each; nginx and HAProxy count "
                "together"
            )
            apart: dict[str, str | tuple[str, ...]] = {"route.rate_limit.by_route": ("status 200", "rate")}
            yield Objection(approximate(note, apart), f"{route.field}.rate_limit", "route.rate_limit")


RATE_LIMITS = Contributor(manager=_manager, route=_route, by_client=_by_client, objections=_objections)
