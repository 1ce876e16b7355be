"""Access lists, rate limits, body sizes and buffers: Envoy filters that are off until a route enables them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import version_key
from lbgen.engines.envoy.headers import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.predicates import cidrs, has_mapped_addresses
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.policy import Access, RateLimit

ACCESS = "access"
RATE = "rate-limit"
BUFFER = "request-buffer"
DENIED = "denied"
_IN_MEMORY = 1 << 20  # bytes of a body in memory; the rest is on disk
_ON_DISK = 1 << 40
_NO_LIMIT = 1_000_000_000
_KEYS = 100_000  # buckets kept; the one idle for longest is dropped first
_ROUTE = "route"
_METADATA = "lbgen"
_CLIENT = "client"
_CLIENT_HEADER = "x-lbgen-client"  # between two filters
_HUNDRED: dict[str, Data] = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


def needs_client_address(plan: Plan, listener: Listener) -> bool:
    """Whether some limit or access list applies to the client behind trusted proxies."""
    if not listener.trusted_proxies:
        return False
    names = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    routes = [plan.route(name) for name in names]
    keys = [route.rate_limit.key.kind for route in routes if route.rate_limit is not None]
    asked = listener.access is not None or any(route.access is not None for route in routes)
    return asked or KeyKind.CLIENT_IP in keys


def build_access_rules(access: Access, *, mapped: bool) -> dict[str, Data]:
    """RBAC rules that deny clients; `mapped` see `cidrs`."""
    refused: list[Data] = [{"remote_ip": each} for each in cidrs(access.deny, mapped=mapped)]
    if access.allow is not None:
        let_in: list[Data] = [{"remote_ip": each} for each in cidrs(access.allow, mapped=mapped)]
        refused.append({"not_id": {"or_ids": {"ids": let_in}}} if let_in else {"any": True})
    policies: Data = {DENIED: {"permissions": [{"any": True}], "principals": refused}} if refused else {}
    return {"rules": {"action": "DENY", "policies": policies}}


def build_access_filter(name: str, access: Access | None, *, mapped: bool = False) -> dict[str, Data]:
    """An RBAC filter: with `access` for every request, otherwise off until a route enables it."""
    own = {} if access is None else build_access_rules(access, mapped=mapped)
    found: dict[str, Data] = extension(name, "filters.http.rbac.v3.RBAC", own)
    return found if access is not None else {**found, "disabled": True}


def build_client_key_filters(routes: Iterable[Route], listener: Listener) -> list[dict[str, Data]]:
    """The filters that write the client's address as a key of limits, where it may be an IPv4 address in IPv6 form."""
    limits = [route.rate_limit for route in routes if route.rate_limit is not None]
    if not has_mapped_addresses(listener) or all(limit.key.kind is not KeyKind.CLIENT_IP for limit in limits):
        return []
    address = header_option(_CLIENT_HEADER, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", SET)
    plain: Data = {"pattern": {"regex": "^::ffff:"}, "substitution": ""}
    rule: Data = {
        "header": _CLIENT_HEADER,
        "on_header_present": {"metadata_namespace": _METADATA, "key": _CLIENT, "regex_value_rewrite": plain},
        "remove": True,
    }
    return [
        build_mutation_filter("client-address", [{"append": address}]),
        extension("client-key", "filters.http.header_to_metadata.v3.Config", {"request_rules": [rule]}),
    ]


def build_rate_filter(routes: Iterable[Route], listener: Listener) -> dict[str, Data]:
    """One filter with the buckets of all routes, so that all rules of a route share its buckets."""
    mapped = has_mapped_addresses(listener)
    limits = {route.name: route.rate_limit for route in routes if route.rate_limit is not None}
    keys = dict.fromkeys((limit.key.kind, limit.key.name) for limit in limits.values())
    return extension(
        RATE,
        "filters.http.local_ratelimit.v3.LocalRateLimit",
        {
            "stat_prefix": RATE,
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


def build_rate_metadata(route: Route) -> dict[str, Data]:
    """Metadata with the route's name, which the rate limit filter reads."""
    return {"filter_metadata": {_METADATA: {_ROUTE: route.name}}}


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


def build_body_size_filter(size: int, version: str) -> dict[str, Data]:
    """A filter that refuses bodies of more than `size` bytes; before 1.40 the one that holds bodies until they end."""
    kind = "body_size_limit.v3.BodySizeLimit" if version_key(version) >= (1, 40) else "buffer.v3.Buffer"
    limit: dict[str, Data] = typed(f"envoy.extensions.filters.http.{kind}", {"max_request_bytes": size})
    return {"name": body_size_filter_name(size), "typed_config": limit, "disabled": True}


def body_size_filter_name(size: int) -> str:
    return f"max-body-{size}"


def build_buffer_filter() -> dict[str, Data]:
    """The filter that holds a request until its body is complete, whatever its length."""
    config: dict[str, Data] = {
        "manager_config": {"thread_pool": {}},
        "request": {
            "behavior": {"fully_buffer": {}},
            "memory_buffer_bytes_limit": _IN_MEMORY,
            "storage_buffer_bytes_limit": _ON_DISK,
        },
        "response": {"behavior": {"bypass": {}}},
    }
    kind = "filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig"
    return extension(BUFFER, kind, config, disabled=True)
