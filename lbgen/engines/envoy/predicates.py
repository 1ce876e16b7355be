"""Predicates of Envoy's matchers: conditions on connections, requests and responses, and their combinations."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.plan.model import Listener

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    Predicate = dict[str, Data]

NETWORK_INPUTS = "matching.common_inputs.network.v3"
_MAPPED = 0xFFFF << 32
_ALL_MAPPED = IPv6Network((_MAPPED, 96))


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


def address_in(networks: Iterable[str], address: dict[str, Data], label: str, *, mapped: bool = False) -> Predicate:
    """Holds where the input `address` is in one of these CIDRs; `label` names the match in Envoy's counters, `mapped`
    see `cidrs`."""
    config: dict[str, Data] = {"cidr_ranges": cidrs(networks, mapped=mapped), "stat_prefix": label}
    match = extension("networks", "matching.input_matchers.ip.v3.Ip", config)
    return {"single_predicate": {"input": address, "custom_match": match}}


def cidrs(networks: Iterable[str], *, mapped: bool) -> list[Data]:
    """CidrRanges. `mapped`: addresses come from PROXY headers or X-Forwarded-For, where ::ffff:192.0.2.7 is 192.0.2.7,
    which Envoy does not see; such an address is in the IPv4 network, and in no IPv6 one."""
    found: list[Data] = []
    for network in map(ip_network, networks):
        parts: list[IPv4Network | IPv6Network] = [network]
        if mapped and isinstance(network, IPv4Network):
            prefix = IPv6Address(_MAPPED + int(network.network_address))
            parts.append(IPv6Network((prefix, 96 + network.prefixlen)))
        elif mapped and isinstance(network, IPv6Network) and network.supernet_of(_ALL_MAPPED):
            parts = [*sorted(network.address_exclude(_ALL_MAPPED))]
        found += [_cidr(each) for each in parts]
    return found


def has_mapped_addresses(listener: Listener) -> bool:
    """Whether IPv4 addresses may come in IPv6 form: the kernel's never do."""
    return listener.proxy_protocol or bool(listener.trusted_proxies)


def _cidr(network: IPv4Network | IPv6Network) -> dict[str, Data]:
    return {"address_prefix": str(network.network_address), "prefix_len": network.prefixlen}


def server_name_matches(pattern: str) -> Predicate:
    """Holds where all of the server name in a TLS handshake matches."""
    server_name = extension("server-name", f"{NETWORK_INPUTS}.ServerNameInput")
    return {"single_predicate": {"input": server_name, "value_match": _regex(pattern)}}


def header_input(name: str) -> dict[str, Data]:
    """The input of a matcher that reads a request header."""
    return {
        "name": name,
        "typed_config": typed("envoy.type.matcher.v3.HttpRequestHeaderMatchInput", {"header_name": name}),
    }


def _regex(pattern: str) -> dict[str, Data]:
    return {"safe_regex": {"google_re2": {}, "regex": pattern}}
