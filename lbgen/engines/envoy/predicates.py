"""Predicates of Envoy's matchers: conditions on connections, requests and responses, and their combinations."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data

    Predicate = dict[str, Data]

NETWORK_INPUTS = "matching.common_inputs.network.v3"


def not_(predicate: Predicate) -> Predicate:
    """Holds where `predicate` does not."""
    inner = predicate.get("not_matcher")
    return inner if isinstance(inner, dict) else {"not_matcher": predicate}


def any_of(*predicates: Predicate) -> Predicate:
    """Holds where one of `predicates` does."""
    return {"or_matcher": {"predicate": list(predicates)}} if len(predicates) > 1 else predicates[0]


def all_of(*predicates: Predicate) -> Predicate:
    """Holds where all of `predicates` do."""
    return {"and_matcher": {"predicate": list(predicates)}} if len(predicates) > 1 else predicates[0]


def address_in(networks: Iterable[str], address: dict[str, Data], label: str) -> Predicate:
    """Holds where the input `address` is in one of these CIDRs; `label` names the match in Envoy's counters."""
    config: dict[str, Data] = {"cidr_ranges": [cidr(each) for each in networks], "stat_prefix": label}
    match = extension("networks", "matching.input_matchers.ip.v3.Ip", config)
    return {"single_predicate": {"input": address, "custom_match": match}}


def cidr(network: str) -> dict[str, Data]:
    """A CidrRange."""
    parsed = ip_network(network)
    return {"address_prefix": str(parsed.network_address), "prefix_len": parsed.prefixlen}


def server_name_matches(pattern: str) -> Predicate:
    """Holds where all of the server name in a TLS handshake matches."""
    server_name = extension("server-name", f"{NETWORK_INPUTS}.ServerNameInput")
    return {"single_predicate": {"input": server_name, "value_match": _regex(pattern)}}


def header_equals(name: str, value: str) -> Predicate:
    """Holds where a request header has exactly this value."""
    return {"single_predicate": {"input": header_input(name), "value_match": {"exact": value}}}


def header_matches(name: str, pattern: str, side: str = "Request") -> Predicate:
    """Holds where all of a header's value matches; `side` is Request or Response."""
    return {"single_predicate": {"input": header_input(name, side), "value_match": _regex(pattern)}}


def header_input(name: str, side: str = "Request") -> dict[str, Data]:
    """The input of a matcher that reads a header."""
    kind = f"envoy.type.matcher.v3.Http{side}HeaderMatchInput"
    return {"name": name, "typed_config": typed(kind, {"header_name": name})}


def _regex(pattern: str) -> dict[str, Data]:
    return {"safe_regex": {"google_re2": {}, "regex": pattern}}
