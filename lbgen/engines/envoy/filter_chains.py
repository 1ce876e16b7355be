"""Matching of connections to filter chains: by server name, source and access lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import escape_regex
from lbgen.engines.envoy.predicates import NETWORK_INPUTS, address_in, all_of, any_of, not_, server_name_matches
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.tls import build_names_pattern

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate
    from lbgen.plan.model import L4Rule
    from lbgen.plan.policy import Access
    from lbgen.plan.tls import ListenerTls

DENIED = "denied"
"""The chain of connections that a route's access list refuses. Chains of rules have a number in their name."""


def build_chain_matcher(choices: Iterable[tuple[str, list[Predicate]]]) -> dict[str, Data]:
    """The matcher that picks the first chain (by name) whose predicates all hold; Envoy closes other connections."""
    matchers: list[Data] = [
        {"predicate": all_or_any_source(predicates), "on_match": _chain(name)} for name, predicates in choices
    ]
    return {"matcher_list": {"matchers": matchers}}


def all_or_any_source(predicates: list[Predicate]) -> Predicate:
    """Holds where all of `predicates` do; without any, for every connection."""
    return all_of(*predicates) if predicates else _any_source()


def server_name_predicate(tls: ListenerTls) -> Predicate:
    """Holds for a handshake without a server name, or with one that a certificate holds."""
    return any_of(not_(server_name_matches(r"\C+")), server_name_matches(build_names_pattern(tls)))


def rule_predicates(rule: L4Rule, *, mapped: bool = False) -> list[Predicate]:
    """The conditions of an L4 rule; `mapped` see `predicates.cidrs`."""
    found: list[Predicate] = []
    if rule.sni is not None:
        found.append(server_name_matches((r"\C+[.]" if rule.sni.wildcard else "") + escape_regex(rule.sni.name)))
    return [*found, _source_in(rule.sources, mapped=mapped)] if rule.sources else found


def access_predicates(access: Access | None, *, mapped: bool = False) -> list[Predicate]:
    """The conditions under which a connection is admitted."""
    if access is None:
        return []
    found = [not_(_source_in(access.deny, mapped=mapped))] if access.deny else []
    if access.allow is not None:
        found.append(_source_in(access.allow, mapped=mapped) if access.allow else not_(_any_source()))
    return found


def denied_predicate(access: Access | None, *, mapped: bool = False) -> Predicate | None:
    """Holds for a connection that is not admitted; None where every one is."""
    found = access_predicates(access, mapped=mapped)
    return not_(all_of(*found)) if found else None


def _any_source() -> Predicate:
    return _source_in(("0.0.0.0/0", "::/0"))


def _source_in(networks: Iterable[str], *, mapped: bool = False) -> Predicate:
    source = extension("source", f"{NETWORK_INPUTS}.SourceIPInput")
    return address_in(networks, source, "source", mapped=mapped)


def _chain(name: str) -> dict[str, Data]:
    return {"action": {"name": name, "typed_config": typed("google.protobuf.StringValue", {"value": name})}}
