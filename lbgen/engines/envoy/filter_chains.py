"""Which connections a listener takes, and with which filter chain: by server name, source and access rules."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import escape_regex
from lbgen.engines.envoy.tls import build_names_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import HostPattern, L4Rule
    from lbgen.plan.policy import Access
    from lbgen.plan.tls import ListenerTls

    Predicate = dict[str, Data]

DENIED = "denied"
"""The chain of connections that a route's access keeps out. Chains of rules have a number in their name."""
_INPUTS = "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3"
_IP = "type.googleapis.com/envoy.extensions.matching.input_matchers.ip.v3.Ip"


def build_chain_matcher(choices: Iterable[tuple[str, list[Predicate]]]) -> dict[str, Data]:
    """The first chain (by name) whose predicates all hold takes a connection; without one it is closed."""
    return {
        "matcher_list": {
            "matchers": [{"predicate": all_of(predicates), "on_match": _chain(name)} for name, predicates in choices]
        }
    }


def server_name_predicate(tls: ListenerTls) -> Predicate:
    """No server name, or one that a certificate holds."""
    return _any([_not(_server_name(r"\C+")), _server_name(build_names_pattern(tls))])


def rule_predicates(rule: L4Rule) -> list[Predicate]:
    """What a connection must have for an L4 rule."""
    found = [] if rule.sni is None else [_sni(rule.sni)]
    return [*found, _source(rule.sources)] if rule.sources else found


def access_predicates(access: Access | None) -> list[Predicate]:
    """What a connection must have to be let in."""
    if access is None:
        return []
    found = [_not(_source(access.deny))] if access.deny else []
    if access.allow is not None:
        found.append(_source(access.allow) if access.allow else _not(_any_source()))
    return found


def denied_predicate(access: Access | None) -> Predicate | None:
    """What a connection has that is not let in; None when every one is."""
    found = access_predicates(access)
    return _not(all_of(found)) if found else None


def _sni(name: HostPattern) -> Predicate:
    return _server_name((r"\C+[.]" if name.wildcard else "") + escape_regex(name.name))


def _server_name(pattern: str) -> Predicate:
    return {
        "single_predicate": {
            "input": {"name": "server-name", "typed_config": {"@type": f"{_INPUTS}.ServerNameInput"}},
            "value_match": {"safe_regex": {"google_re2": {}, "regex": pattern}},
        }
    }


def _any_source() -> Predicate:
    return _source(("0.0.0.0/0", "::/0"))


def _source(networks: Iterable[str]) -> Predicate:
    parsed = [ip_network(network) for network in networks]
    ranges: list[Data] = [{"address_prefix": str(n.network_address), "prefix_len": n.prefixlen} for n in parsed]
    return {
        "single_predicate": {
            "input": {"name": "source", "typed_config": {"@type": f"{_INPUTS}.SourceIPInput"}},
            "custom_match": {
                "name": "networks",
                "typed_config": {"@type": _IP, "cidr_ranges": ranges, "stat_prefix": "source"},
            },
        }
    }


def all_of(predicates: list[Predicate]) -> Predicate:
    """A predicate that holds where all of `predicates` do."""
    if not predicates:
        return _any_source()
    return predicates[0] if len(predicates) == 1 else {"and_matcher": {"predicate": list(predicates)}}


def _any(predicates: list[Predicate]) -> Predicate:
    return {"or_matcher": {"predicate": list(predicates)}}


def _not(predicate: Predicate) -> Predicate:
    return {"not_matcher": predicate}


def _chain(name: str) -> dict[str, Data]:
    value: Data = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": name}
    return {"action": {"name": name, "typed_config": value}}
