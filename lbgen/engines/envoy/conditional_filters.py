"""An HTTP filter and a condition -> the same filter, skipped for requests that the condition covers."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data

_TYPE = "type.googleapis.com/envoy"


def skip_where(condition: dict[str, Data], http_filter: dict[str, Data]) -> dict[str, Data]:
    """`http_filter`, skipped where `condition` (a matcher predicate) holds."""
    skip: dict[str, Data] = {"@type": f"{_TYPE}.extensions.filters.common.matcher.action.v3.SkipFilter"}
    matcher: dict[str, Data] = {"predicate": condition, "on_match": {"action": {"name": "skip", "typed_config": skip}}}
    return {
        "name": http_filter["name"],
        "typed_config": {
            "@type": f"{_TYPE}.extensions.common.matching.v3.ExtensionWithMatcher",
            "extension_config": http_filter,
            "xds_matcher": {"matcher_list": {"matchers": [matcher]}},
        },
    }


def not_(condition: dict[str, Data]) -> dict[str, Data]:
    """A predicate that holds where `condition` does not."""
    return {"not_matcher": condition}


def any_of(*conditions: dict[str, Data]) -> dict[str, Data]:
    """A predicate that holds where one of `conditions` does."""
    return {"or_matcher": {"predicate": list(conditions)}} if len(conditions) > 1 else conditions[0]


def peer_in(networks: Iterable[str], state: str | None = None) -> dict[str, Data]:
    """Whether the TCP peer, or the address in that filter state, is in one of these CIDRs."""
    parsed = [ip_network(network) for network in networks]
    ranges: list[Data] = [{"address_prefix": str(n.network_address), "prefix_len": n.prefixlen} for n in parsed]
    inputs = f"{_TYPE}.extensions.matching.common_inputs.network.v3"
    peer: dict[str, Data] = {"@type": f"{inputs}.DirectSourceIPInput"}
    if state is not None:
        peer = {"@type": f"{inputs}.FilterStateInput", "key": state}
    return {
        "single_predicate": {
            "input": {"name": "peer", "typed_config": peer},
            "custom_match": {
                "name": "networks",
                "typed_config": {
                    "@type": f"{_TYPE}.extensions.matching.input_matchers.ip.v3.Ip",
                    "cidr_ranges": ranges,
                    "stat_prefix": "trusted",
                },
            },
        }
    }


def header_equals(name: str, value: str) -> dict[str, Data]:
    """Whether a request header has exactly this value."""
    return _header(name, {"exact": value})


def header_matches(name: str, pattern: str) -> dict[str, Data]:
    """Whether the value of a request header matches as a whole."""
    return _header(name, {"safe_regex": {"google_re2": {}, "regex": pattern}})


def response_header_matches(name: str, pattern: str) -> dict[str, Data]:
    """Whether the value of a response header matches as a whole."""
    return _header(name, {"safe_regex": {"google_re2": {}, "regex": pattern}}, "Response")


def _header(name: str, value_match: dict[str, Data], side: str = "Request") -> dict[str, Data]:
    return {
        "single_predicate": {
            "input": {
                "name": name,
                "typed_config": {
                    "@type": f"type.googleapis.com/envoy.type.matcher.v3.Http{side}HeaderMatchInput",
                    "header_name": name,
                },
            },
            "value_match": value_match,
        }
    }
