"""Indexes rules by host and path, so that a request is compared with few rules.

The index narrows only: each candidate is still compared as a whole by `mismatch`, and the lowest rank wins. It is built
from the ranks alone, not from the host tables or path groups that engines use, so that it can verify those.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache
from ipaddress import ip_network

from lbgen.plan.addresses import client_ip
from lbgen.plan.model import L4Rule, Listener, Rule
from lbgen.plan.path_conditions import places, start_lengths
from lbgen.plan.precedence import group
from lbgen.plan.request import ParsedRequest

_INDEXES = 64  # listeners whose index is kept


class RuleIndex:
    """The L7 rules of a listener; `rules` are all of them in the order of trial."""

    def __init__(self, listener: Listener) -> None:
        by_rank = {rule.rank: rule for table in listener.hosts for rule in table.rules}
        self.rules = tuple(by_rank[rank] for rank in sorted(by_rank))
        self._found = group(((_pattern(rule.host), rule.match.path.place), rule) for rule in self.rules)
        self._starts = start_lengths(rule.match.path for rule in self.rules)

    def candidates(self, request: ParsedRequest) -> list[Rule]:
        """Every rule whose host and path `request` can have, in the order of trial."""
        paths = [*places(request.matched_path, request.path, self._starts)]
        found = [
            rule for host in _patterns(request.host) for path in paths for rule in self._found.get((host, path), ())
        ]
        found.sort(key=lambda rule: rule.rank)
        return found


class L4Index:
    """The rules of an L4 listener; `rules` are all of them in the order of trial."""

    def __init__(self, listener: Listener) -> None:
        self.rules = tuple(sorted(listener.l4_rules, key=lambda rule: rule.rank))
        pairs = [(rule, source) for rule in self.rules for source in rule.sources or (None,)]
        self._found = group(((_pattern(rule.sni), _network(source)), rule) for rule, source in pairs)
        networks = {ip_network(source) for _, source in pairs if source is not None}
        self._lengths = sorted({(network.version, network.prefixlen) for network in networks})

    def candidates(self, sni: str | None, source: str) -> list[L4Rule]:
        """Every rule that a connection from `source` for the server name `sni` can have, in the order of trial."""
        peer = client_ip(source)
        networks: list[Hashable] = [None]
        networks += [
            ip_network((peer, length), strict=False) for version, length in self._lengths if version == peer.version
        ]
        found = {
            rule.rank: rule
            for host in _patterns(sni)
            for network in networks
            for rule in self._found.get((host, network), ())
        }
        return [found[rank] for rank in sorted(found)]


def rule_index(listener: Listener) -> RuleIndex:
    """The index of `listener`, which is built once."""
    return _l7(_Same(listener))


def l4_index(listener: Listener) -> L4Index:
    """The index of `listener`, which is built once."""
    return _l4(_Same(listener))


class _Same:
    """A key that is equal for one and the same listener only: a comparison by value costs as much as its rules."""

    __slots__ = ("listener",)

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.listener is other.listener

    def __hash__(self) -> int:
        return id(self.listener)


@lru_cache(maxsize=_INDEXES)
def _l7(key: _Same) -> RuleIndex:
    return RuleIndex(key.listener)


@lru_cache(maxsize=_INDEXES)
def _l4(key: _Same) -> L4Index:
    return L4Index(key.listener)


def _pattern(host: object) -> str:
    return "" if host is None else str(host)


def _patterns(host: str | None) -> Iterator[str]:
    """As text, every pattern that covers `host`; "" is that of every host."""
    yield ""
    if host:
        yield host
        while "." in host:
            host = host.partition(".")[2]
            yield f"*.{host}"


def _network(source: str | None) -> Hashable:
    return None if source is None else ip_network(source)
