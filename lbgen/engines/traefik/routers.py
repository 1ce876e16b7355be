"""Rules as routers: one for each rule where there are few, else a tree of parents by host and by the start of paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.access import denied_clients
from lbgen.engines.traefik.listeners import describe_routers, have_same_routers, name_requests, runs_before_rules
from lbgen.engines.traefik.matching import (
    ANY,
    build_host,
    build_rule,
    call,
    count_rules,
    decode_path,
    find_priority,
    widen_rules,
)
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.prefix_trees import FIRST, MOST, Tree
from lbgen.engines.traefik.routes import Routes
from lbgen.engines.traefik.tls import find_options
from lbgen.plan.model import HostPattern, Listener, Mode, Plan, Rule
from lbgen.plan.path_conditions import Path, PrefixPath

if TYPE_CHECKING:
    from lbgen.engines.document import Data

    _Router = tuple[str, str, dict[str, Data]]  # name, topology field, data

_EVERYTHING = "PathPrefix(`/`)"
_LAST = -1  # 0 would be the length of the rule
# What endpoints could read in another way than rules do: CONNECT and TRACE, escapes of control characters, and hosts
# that are no name and no address, such as `a.example:80:80`, of which rules take the whole for the name.
_REFUSED = "Method(`CONNECT`) || Method(`TRACE`) || PathRegexp(`[[:cntrl:]]`)"
_NO_HOST = r"HostRegexp(`[,/:]`) && !HostRegexp(`^[0-9a-f:]+(:[0-9.]+)?$|^\[.+]$`)"  # without its port
_DOTS = r"(?:/|%2F)\.\.?(?:/|%2F|$)"  # dot segments between escaped slashes


class _Site(Struct, frozen=True):
    """Listeners that differ in their addresses alone, so that one set of routers serves them."""

    listeners: tuple[Listener, ...]
    tls: Data  # of each router; None without TLS
    alone: bool  # whether there are no other routers
    suffix: str  # of the names of its routers
    requests: str  # the middleware of the router above all others, which finds out the clients' addresses

    @property
    def first(self) -> Listener:
        return self.listeners[0]

    @property
    def entry(self) -> dict[str, Data]:
        """What a router at the top begins with."""
        if self.root:
            return {"parentRefs": [self.root]}
        return {} if self.alone else {"entryPoints": self.entry_points}

    @property
    def entry_points(self) -> list[Data]:
        return [names.entry_point(listener) for listener in self.listeners]

    @property
    def root(self) -> str:
        """The router above all others, "" = none. Traefik applies TLS options by the hosts of a rule, all at once for
        all listeners; a rule for every host, and the hosts below, keep the listeners apart. Its middleware runs before
        rules are tried."""
        if self.requests:
            return f"clients{MARK}{self.first.name}"
        return f"tls{MARK}{self.first.name}" if self.tls else ""

    @property
    def proxies(self) -> tuple[str, ...] | None:
        """The peers whose word counts in rules; None where the middleware above has dropped what others said."""
        return None if self.requests else self.first.trusted_proxies

    @property
    def rules(self) -> list[Rule]:
        """All rules, in order of rank."""
        return sorted({rule.rank: rule for table in self.first.hosts for rule in table.rules}.values(), key=_rank)


def _rank(rule: Rule) -> int:
    return rule.rank


def build_routers(plan: Plan, routes: Routes, version: str) -> dict[str, Data]:
    """The `routers` section."""
    sites = list(_find_sites(plan))
    total = max((count_rules(site.rules) for site in sites), default=0)
    routers: dict[str, Data] = {}
    for site in sites:
        if site.root:
            top: dict[str, Data] = {"entryPoints": site.entry_points, "rule": ANY, "priority": 1}
            if site.requests:
                top["middlewares"] = [site.requests]
            routers[site.root] = Tagged(site.first.field, top if site.tls is None else {**top, "tls": site.tls})
        build = _build_flat if len(site.rules) <= MOST else _build_tree
        for name, field, data in build(site, total, plan, routes):
            chosen, number = name, 2
            while chosen in routers:
                chosen, number = f"{name}{MARK}{number}", number + 1
            routers[chosen] = Tagged(field, data)
    widen_rules(routers, version)
    return routers


def count_routers(plan: Plan) -> Counter[str]:
    """How many routers a route has, by its name, without those for denied clients; each has its own middlewares."""
    counts: Counter[str] = Counter()
    for site in _find_sites(plan):
        rules = [rule for rule, _ in merge_hosts(site.rules)] if len(site.rules) <= MOST else site.rules
        counts.update(rule.route for rule in rules)
    return counts


def _find_sites(plan: Plan) -> Iterator[_Site]:
    found: dict[object, list[Listener]] = {}
    options = find_options(plan.listeners)
    alone = have_same_routers(plan)
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            key = () if alone else (*describe_routers(plan, listener), repr(options.get(listener.name)))
            found.setdefault(key, []).append(listener)
    for number, listeners in enumerate(found.values()):
        suffix = names.suffix(listeners[0] if number else None, shared=len(listeners) > 1)
        first = listeners[0]
        requests = name_requests(plan, first) if runs_before_rules(plan, first) else ""
        yield _Site(tuple(listeners), options.get(first.name), alone, suffix, requests)


def _build_flat(site: _Site, total: int, plan: Plan, routes: Routes) -> Iterator[_Router]:
    yield from _refuse_at_listener(site, total, routes, site.entry)
    for rule, hosts in merge_hosts(site.rules):
        text = _any_host(hosts, build_rule(replace(rule, host=None), site.proxies))
        yield from _leaf(rule, text, find_priority(rule, total), site.entry, site, plan, routes)
    yield from _not_found(site, site.entry, routes)


def _not_found(site: _Site, entry: dict[str, Data], routes: Routes) -> Iterator[_Router]:
    """The router of what no rule takes, where Traefik's own answer will not do; it comes after all."""
    if target := routes.not_found(site.first):
        data = {**entry, "rule": _EVERYTHING, "priority": _LAST, **target}
        yield names.own_router("no-route", site.first), site.first.field, _with_tls(data, site)


def _refuse_at_listener(site: _Site, total: int, routes: Routes, entry: dict[str, Data]) -> Iterator[_Router]:
    """The routers of what the listener refuses, which come before all: what endpoints could read in another way than
    rules do, and clients."""
    refused = f"{_REFUSED} || {call('PathRegexp', _DOTS)}" if site.first.paths.encoded_slash else _REFUSED
    refusals = [("refused", refused, 400), ("hosts", _NO_HOST, 400)]
    if denied := denied_clients(site.first.access):
        refusals.append(("denied", denied, 403))
    for place, (what, rule, status) in enumerate(refusals):
        priority = total + len(site.first.hosts) + len(refusals) - place + 1
        data = {**entry, "rule": rule, "priority": priority, **routes.refuse(status, site.first)}
        yield names.own_router(what, site.first), site.first.field, _with_tls(data, site)


def _leaf(
    rule: Rule, text: str, priority: int, entry: dict[str, Data], site: _Site, plan: Plan, routes: Routes
) -> Iterator[_Router]:
    """The router of a rule, and one for the clients that its route denies."""
    denied = denied_clients(plan.route(rule.route).access)
    if denied:
        data = {
            **entry,
            "rule": f"{text} && ({denied})",
            "priority": priority,
            **routes.refuse(403, site.first, rule.route),
        }
        yield f"{rule.route}{site.suffix}{MARK}denied", rule.field, _with_tls(data, site)
        text = f"{text} && !({denied})"
    target = routes.target(rule.route, rule.match.path, site.first)
    data = {**entry, "rule": text, "priority": priority, **target}
    yield f"{rule.route}{site.suffix}", rule.field, _with_tls(data, site)


def _with_tls(data: dict[str, Data], site: _Site) -> dict[str, Data]:
    return data if site.tls is None or "parentRefs" in data else {**data, "tls": site.tls}


def _any_host(hosts: Iterable[HostPattern | None], rest: str) -> str:
    """A rule for requests to any of these hosts."""
    conditions = [text for host in hosts for text in build_host(host)]
    if not conditions:
        return rest
    text = conditions[0] if len(conditions) == 1 else f"({' || '.join(conditions)})"
    return text if rest == _EVERYTHING else f"{text} && {rest}"


def merge_hosts(rules: Sequence[Rule]) -> list[tuple[Rule, list[HostPattern | None]]]:
    """Rules of one route that differ in their hosts alone, as the first of them with all hosts: where no rule between
    them could take requests of the later one."""
    found: list[tuple[int, Rule, list[HostPattern | None]]] = []
    for place, rule in enumerate(rules):
        for start, first, hosts in found:
            if first.route == rule.route and first.match == rule.match and first.host and rule.host:
                between = (each for each in rules[start:place] if each.route != rule.route)
                if not any(_overlap(each, rule) for each in between):
                    hosts.append(rule.host)
                    break
        else:
            found.append((place, rule, [rule.host]))
    return [(rule, hosts) for _, rule, hosts in found]


def _overlap(one: Rule, other: Rule) -> bool:
    """Whether a request could match the hosts and paths of both."""
    if one.host is None or other.host is None:
        same_host = True
    else:
        same_host = one.host.covers_pattern(other.host) or other.host.covers_pattern(one.host)
    return same_host and _paths_overlap(one.match.path, other.match.path)


def _paths_overlap(one: Path, other: Path) -> bool:
    if not (one.is_text and other.is_text):
        return True
    return _covers(one, other) or _covers(other, one)


def _covers(one: Path, other: Path) -> bool:
    if one.value == other.value:
        return True
    return isinstance(one, PrefixPath) and other.value.startswith(one.value.rstrip("/") + "/")


def _build_tree(site: _Site, total: int, plan: Plan, routes: Routes) -> Iterator[_Router]:
    """Rules below groups by host and by the start of paths."""
    top = f"{site.first.name}{site.suffix}"
    tree = Tree(top, site.first.hosts, decode_path)
    yield from _refuse_at_listener(site, FIRST, routes, site.entry)
    used = {name for parents in tree.parents.values() for name in parents}
    used |= {group.parent for group in tree.groups}
    for group in tree.groups:
        if group.name not in used:  # no rule takes what is left, and Traefik refuses a parent without children
            continue
        above = site.entry if group.parent == top else {"parentRefs": [group.parent]}
        data = {**above, "rule": group.rule, "priority": group.priority}
        yield group.name, site.first.field, _with_tls(data, site)
    parents = [group.name for group in tree.groups if group.name in used]
    yield from _not_found(site, site.entry, routes)
    for name, field, data in _not_found(site, {"parentRefs": [*parents]}, routes):
        yield f"{name}{MARK}below", field, data
    for rule in site.rules:
        parents = tree.parents[rule.rank]
        entry: dict[str, Data] = site.entry if parents == [top] else {"parentRefs": [*parents]}
        yield from _leaf(rule, build_rule(rule, site.proxies), find_priority(rule, total), entry, site, plan, routes)
