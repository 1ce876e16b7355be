"""A listener's host tables -> map files that lead from host and path to a route, and the statements that read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from lbgen.engines.haproxy.conditions import Conditions
from lbgen.engines.haproxy.lua_rules import rules_file
from lbgen.engines.haproxy.statements import Line, line
from lbgen.plan.model import Forward, HostPattern, PathKind, Redirect, Rule
from lbgen.plan.precedence import covering_hosts, path_groups
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.api import RenderedFile
    from lbgen.engines.haproxy.lookup import Lookup
    from lbgen.engines.haproxy.statements import Maps
    from lbgen.plan.model import HostTable, Listener
    from lbgen.plan.precedence import PathGroup

ROUTE = "txn.route"
_ANY = "*"
STATEMENTS = 24  # from more rules with conditions on, Lua tries them


def stripped_segments(rule: Rule, lookup: Lookup) -> int | None:
    """How many path segments a prefix rewrite or redirect of this rule's route takes off; None when it takes the whole
    path, -1 when the route does nothing of the kind."""
    action = lookup.route(rule.route).action
    match action:
        case Forward(rewrite=rewrite) if rewrite is not None and rewrite.prefix is not None:
            pass
        case Redirect(prefix=str()):
            pass
        case _:
            return -1
    path = rule.match.path
    return path.value.rstrip("/").count("/") if path.kind is PathKind.PREFIX else None


@record
class RouteKey:
    """A route plus the number of path segments that its prefix rewrite strips (`stripped`; see `stripped_segments`).

    `name` is the route's, with that number behind it where one route has several; `txn.route` holds it."""

    name: str
    route: str
    stripped: int | None
    origin: str


@dataclass(slots=True)
class Routing:
    """The statements that set `txn.route` for a listener, and what they know."""

    route_keys: dict[str, RouteKey]  # by name, in order of first use
    lines: list[Line]
    lua: tuple[RenderedFile, ...]


@dataclass(slots=True)
class _Sets:
    """Lists of rules that are tried one by one, each named once; which lists a rule is on."""

    names: dict[tuple[str, ...], str] = field(default_factory=dict)
    rules: dict[str, tuple[Rule, list[str]]] = field(default_factory=dict)

    def name(self, rules: tuple[Rule, ...]) -> str:
        key = tuple(rule.id for rule in rules)
        if key not in self.names:
            self.names[key] = f"c{len(self.names) + 1}"
            for rule in rules:
                self.rules.setdefault(rule.id, (rule, []))[1].append(self.names[key])
        return self.names[key]


def routing(listener: Listener, lookup: Lookup, maps: Maps, needs_host: bool) -> Routing:
    """Everything between an accepted request and its route.

    One lookup finds the table of the host, one or two the deepest path of that table (exact, then longest prefix with
    a slash behind it, which keeps /api from taking /apix). Where that path leaves a choice, the map names a set of
    rules and those few are tried in order; the rest of the configuration costs such a request nothing.
    """
    keys = _Keys(listener, lookup)
    tables, named = _distinct(listener)
    several = len(listener.hosts) > 1
    lines = _host_lines(listener, named, maps) if several or needs_host else []
    groups = [(name, group) for name, table in tables for group in path_groups(table.rules)]
    sets = _Sets()
    values = [(name, group, _value(group, keys, sets)) for name, group in groups]
    lines += _path_lines(values, "txn.way" if sets.names else ROUTE, several, maps)
    lua: tuple[RenderedFile, ...] = ()
    if sets.names:
        tried = sorted((rule for rule, _ in sets.rules.values()), key=attrgetter("rank"))
        if len(tried) > STATEMENTS:
            lua = (rules_file(listener.name, [(rule, keys.of(rule)) for rule in tried], sets.names),)
            chosen = [line("", f"http-request lua.choose {listener.name} if {{ var(txn.set) -m found }}")]
        else:
            chosen = _tried_lines(tried, sets, keys, maps)
        lines += _choice_lines(chosen)
    lines.append(line("", f"http-request deny deny_status 404 if !{{ var({ROUTE}) -m found }}"))
    return Routing(keys.route_keys, lines, lua)


class _Keys:
    """Names the route keys of a listener."""

    def __init__(self, listener: Listener, lookup: Lookup) -> None:
        self._lookup = lookup
        self.route_keys: dict[str, RouteKey] = {}
        self._cuts: dict[str, set[int | None]] = {}
        for rule in {rule.id: rule for table in listener.hosts for rule in table.rules}.values():
            self._cuts.setdefault(rule.route, set()).add(stripped_segments(rule, lookup))

    def of(self, rule: Rule) -> str:
        taken = stripped_segments(rule, self._lookup)
        several = len(self._cuts[rule.route]) > 1
        key = f"{rule.route}/{'all' if taken is None else taken}" if several else rule.route
        if key not in self.route_keys:
            self.route_keys[key] = RouteKey(key, rule.route, taken, self._lookup.route(rule.route).field)
        return key


def _distinct(listener: Listener) -> tuple[list[tuple[str, HostTable]], dict[HostPattern | None, str]]:
    """Tables that say the same are one, named after the first host."""
    found: dict[tuple[object, ...], str] = {}
    tables = []
    named: dict[HostPattern | None, str] = {}
    for table in listener.hosts:
        says = tuple((rule.route, rule.match) for rule in table.rules)
        if says not in found:
            found[says] = str(table.host) if table.host is not None else _ANY
            tables.append((found[says], table))
        named[table.host] = found[says]
    return tables, named


def _host_lines(listener: Listener, named: dict[HostPattern | None, str], maps: Maps) -> list[Line]:
    lines = [
        line("", "http-request set-var(txn.host) req.fhdr(host),lower,field(1,:)"),
        line("", "http-request set-var(txn.host) var(txn.host),regsub('[.]$',) if { var(txn.host) -m end . }"),
        line("", "http-request set-var(txn.host) req.fhdr(host),lower,regsub('].*',]) if { req.fhdr(host) -m beg [ }"),
    ]
    if len(named) == 1:
        return lines
    exact = maps.file("hosts.map", "host -> table")
    wild = (
        maps.file("wildcards.map", "domain whose hosts below it -> table")
        if any(h and h.wildcard for h in named)
        else None
    )
    origins = {table.host: table.rules[0].field if table.rules else "" for table in listener.hosts}
    for host, table in named.items():
        if host is None:
            continue
        if not host.wildcard:
            exact.add(host.name, table, origins[host])
        elif wild is not None:
            wild.add(host.name, table, origins[host])
            if HostPattern(host.name) not in named:  # *.x does not cover x
                next_wider = next(h for h in covering_hosts(HostPattern(host.name)) if h in named)
                exact.add(host.name, named[next_wider], origins[next_wider])
    lines.append(line("", f"http-request set-var(txn.table) var(txn.host),map_str({exact.name})"))
    labels = sorted({h.name.count(".") + 1 for h in named if h and h.wildcard}, reverse=True)
    for count in labels if wild is not None else ():
        last = f"var(txn.host),field(-1,.,{count}),map_str({wild.name})" if wild else ""
        lines.append(line("", f"http-request set-var(txn.table) {last} if !{{ var(txn.table) -m found }}"))
    lines.append(line("", f"http-request set-var(txn.table) str({named[None]}) if !{{ var(txn.table) -m found }}"))
    return lines


def _value(group: PathGroup, keys: _Keys, sets: _Sets) -> str:
    """`route`, `set:route` or `set:`: the rules to try first and the route that is left."""
    last = group.candidates[-1]
    sure = keys.of(last.rule) if last.unconditional else ""
    open_ones = tuple(c.rule for c in group.candidates if not c.unconditional)
    return f"{sets.name(open_ones)}:{sure}" if open_ones else sure


def _path_lines(values: list[tuple[str, PathGroup, str]], way: str, several: bool, maps: Maps) -> list[Line]:
    if not values:
        return []
    if not several and len(values) == 1 and values[0][1].kind is PathKind.PREFIX and values[0][1].path == "/":
        origin = values[0][1].candidates[0].rule.field
        return [line(origin, f"http-request set-var({way}) str({values[0][2]})")]
    exact = any(group.kind is PathKind.EXACT for _, group, _ in values)
    for table, group, value in values:
        lead = f"{table}|" if several else ""
        origin = group.candidates[0].rule.field
        if group.kind is PathKind.EXACT:
            maps.file("exact.map", "exact path -> route").add(lead + group.path, value, origin)
        else:
            path = group.path.rstrip("/") + "/"
            maps.file("prefix.map", "path prefix -> route").add(lead + path, value, origin)
    lines = []
    start = "path"
    if any("%" in group.path for _, group, _ in values):
        lines += [
            line("", "http-request set-var(txn.path) path"),
            line("", "http-request set-var(txn.path) path,lua.upper_escapes if { path -m reg '%[0-9A-F]?[a-f]' }"),
        ]
        start = "var(txn.path)"
    elif several:
        lines.append(line("", "http-request set-var(txn.path) path"))
    if several:
        lines.append(line("", "http-request set-var(txn.key) var(txn.table),concat(|,txn.path)"))
        start = "var(txn.key)"
    unless: tuple[str, ...] = ()
    if exact:
        lines.append(line("", f"http-request set-var({way}) {start},map_str(maps/{maps.listener}.exact.map)"))
        unless = (f"if !{{ var({way}) -m found }}",)
    if any(group.kind is PathKind.PREFIX for _, group, _ in values):
        matched = f"{start},concat(/),map_beg(maps/{maps.listener}.prefix.map)"
        lines.append(line("", f"http-request set-var({way}) {matched}", *unless))
    return lines


def _choice_lines(chosen: list[Line]) -> list[Line]:
    return [
        line("", "http-request set-var(txn.set) var(txn.way),field(1,:) if { var(txn.way) -m sub : }"),
        line("", f"acl routed var({ROUTE}) -m found"),
        *chosen,
        line("", f"http-request set-var({ROUTE}) var(txn.way),field(-1,:) if !routed !{{ var(txn.way) -m end : }}"),
    ]


def _tried_lines(rules: list[Rule], sets: _Sets, keys: _Keys, maps: Maps) -> list[Line]:
    conditions = Conditions()
    tried = []
    for number, rule in enumerate(rules):
        words = conditions.words(rule.match, rule.field)
        gate = maps.among("txn.set", sets.rules[rule.id][1], f"{rule.id}.sets", {}, most=10)
        unless = "if" if number == 0 else "if !routed"
        tried.append(line(rule.field, f"http-request set-var({ROUTE}) str({keys.of(rule)})", unless, gate, *words))
    return [*conditions.prepared, *conditions.acls, *tried]
