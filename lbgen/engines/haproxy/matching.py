"""Routing: the statements that find a request's route. A few rules are tried one by one; many are looked up in map
files that lead from host and path to the route."""

from __future__ import annotations

from operator import attrgetter

from msgspec import Struct, field

from lbgen.engines.haproxy.conditions import Conditions
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.statements import HOST, Acl, Statement, acl, acl_named, is_set, set_var, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward, HostPattern, HostTable, Listener, Plan, Redirect, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath
from lbgen.plan.precedence import PathGroup, covering_hosts, group, path_groups
from lbgen.plan.route_values import has_captures

ROUTE = "txn.route"
ROUTING = "Routing: the first rule that holds names the route; an added slash keeps /api off /apix"
MAX_LISTED = 12  # rules tried one by one; from here on lookups cost less
_MOST_RULES = 64  # of which that many may be left when those with several hosts are joined
_ANY_HOST = "*"
# A text, so that it is set, and empty, without a Host header.
_HOST = statement("http-request set-var-fmt(txn.host)", Literal(f"%[{HOST}]"))


class RouteKey(Struct, frozen=True, eq=False):
    """A route plus the number of path segments that its prefix rewrite strips (`stripped`; see `stripped_segments`).

    `name` is the route's, with that number behind it where one route has several; `txn.route` holds it. A route whose
    values hold groups of the `path` has a key for each of its patterns.
    """

    name: str
    route: str
    stripped: int | None
    origin: str
    path: Path


class Routing(Struct):
    """The statements that set `txn.route` for a listener; `route_keys` by name, in order of first use."""

    route_keys: dict[str, RouteKey]
    statements: list[Statement]


class _RuleSets(Struct):
    """Lists of rules with conditions: the name of each list, and by rule id the rule and the lists that have it."""

    names: dict[tuple[str, ...], str] = field(default_factory=dict)
    rules: dict[str, tuple[Rule, list[str]]] = field(default_factory=dict)

    def name(self, rules: tuple[Rule, ...]) -> str:
        key = tuple(rule.id for rule in rules)
        if key not in self.names:
            self.names[key] = f"c{len(self.names) + 1}"
            for rule in rules:
                self.rules.setdefault(rule.id, (rule, []))[1].append(self.names[key])
        return self.names[key]


class _RouteKeys:
    """Creates the route keys of a listener."""

    def __init__(self, listener: Listener, plan: Plan) -> None:
        self._plan = plan
        self.by_name: dict[str, RouteKey] = {}
        self._variants: dict[str, list[str]] = {}
        for rule in {rule.id: rule for table in listener.hosts for rule in table.rules}.values():
            known = self._variants.setdefault(rule.route, [])
            if (variant := self._variant(rule)) not in known:
                known.append(variant)

    def _variant(self, rule: Rule) -> str:
        if has_captures(self._plan.route(rule.route)):
            return rule.match.path.value
        stripped = stripped_segments(rule, self._plan)
        return "all" if stripped is None else str(stripped)

    def name(self, rule: Rule) -> str:
        known, variant = self._variants[rule.route], self._variant(rule)
        shown = f"path{known.index(variant) + 1}" if variant == rule.match.path.value else variant
        name = f"{rule.route}/{shown}" if len(known) > 1 else rule.route
        if name not in self.by_name:
            stripped, field = stripped_segments(rule, self._plan), self._plan.route(rule.route).field
            self.by_name[name] = RouteKey(name, rule.route, stripped, field, rule.match.path)
        return name


def route_requests(listener: Listener, plan: Plan, maps: Maps, client: str, needs_host: bool) -> Routing:
    """Everything between an accepted request and its route. `client`: a sample of the client's address. `needs_host`:
    `txn.host` is used elsewhere.

    Few rules are tried in order of precedence. Where there are more, one lookup finds the table of the host, one or two
    the deepest path of that table (exact, then longest prefix with a slash behind it, which keeps /api from taking
    /apix). Where several rules remain for that path, the map names a set of rules and only those are tried, in order of
    precedence.
    """
    keys, conditions = _RouteKeys(listener, plan), Conditions(client, maps)
    if (listed := _listed_rules(listener)) is not None:
        return Routing(keys.by_name, _listed_statements(listed, keys, conditions, needs_host))
    tables, names = _distinct_tables(listener)
    has_hosts = len(listener.hosts) > 1
    statements = _host_statements(listener, names, maps) if has_hosts or needs_host else []
    groups = [(name, group) for name, table in tables for group in path_groups(table.rules)]
    sets = _RuleSets()
    values = [(name, group, _value(group, keys, sets)) for name, group in groups]
    statements += _path_statements(values, "txn.way" if sets.names else ROUTE, has_hosts, maps)
    if sets.names:
        rules = sorted((rule for rule, _ in sets.rules.values()), key=attrgetter("rank"))
        statements += [
            set_var("txn.set", "var(txn.way),field(1,:)", [acl("var(txn.way) -m sub :")]),
            statement("acl routed", f"var({ROUTE}) -m found"),
            *_rule_statements(rules, sets, keys, conditions),
            set_var(ROUTE, "var(txn.way),field(-1,:)", [~acl_named("routed"), ~acl("var(txn.way) -m end :")]),
        ]
    if sets.names or not _takes_every_path(groups, has_hosts):
        statements.append(statement("http-request deny deny_status 404", when=[~is_set(ROUTE)]))
    return Routing(keys.by_name, statements)


def _listed_rules(listener: Listener) -> list[list[Rule]] | None:
    """Rules in an order in which the first that matches wins, None when they have to be looked up. Those that differ by
    their hosts only stand together, where that is possible."""
    rules = sorted({rule.id: rule for table in listener.hosts for rule in table.rules}.values(), key=attrgetter("rank"))
    # An escape in a path may be written in two ways, which the lookups see to.
    if len(rules) > _MOST_RULES or any("%" in rule.match.path.value for rule in rules):
        return None
    alike = group(((rule.route, rule.match), rule) for rule in rules)
    listed = _in_order(list(alike.values())) or [[rule] for rule in rules]
    return listed if len(listed) <= MAX_LISTED else None


def _in_order(groups: list[list[Rule]]) -> list[list[Rule]] | None:
    """The groups in an order that keeps precedence within every host; None where there is no such order."""
    left, ordered = list(groups), []
    while left:
        first = next((one for one in left if not any(_precedes(other, one) for other in left)), None)
        if first is None:
            return None
        left.remove(first)
        ordered.append(first)
    return ordered


def _precedes(one: list[Rule], other: list[Rule]) -> bool:
    return one is not other and any(a.rank < b.rank and _overlap(a.host, b.host) for a in one for b in other)


def _overlap(one: HostPattern | None, other: HostPattern | None) -> bool:
    """Whether some host belongs to both."""
    return one is None or other is None or one.covers_pattern(other) or other.covers_pattern(one)


def _listed_statements(
    listed: list[list[Rule]], keys: _RouteKeys, conditions: Conditions, needs_host: bool
) -> list[Statement]:
    """Try the rules one by one."""
    statements: list[Statement] = []
    acls: list[Acl] = []
    for rules in listed:
        rule, hosts = rules[0], tuple(rule.host for rule in rules)
        acls = [*conditions.of_hosts(hosts, rule.field), *conditions.of(rule.match, rule.field, whole_path=True)]
        unrouted = [~acl_named("routed")] if statements else []
        statements.append(set_var(ROUTE, f"str({keys.name(rule)})", [*unrouted, *acls], rule.field))
    if len(statements) > 1:
        statements.insert(0, statement("acl routed", f"var({ROUTE}) -m found"))
    if acls or not statements:
        is_routed = acl_named("routed") if len(statements) > 1 else is_set(ROUTE)
        statements.append(statement("http-request deny deny_status 404", when=[~is_routed]))
    needs_host = needs_host or any(rule.host for rules in listed for rule in rules)
    return [*([_HOST] if needs_host else []), *conditions.variables, *conditions.acls, *statements]


def stripped_segments(rule: Rule, plan: Plan) -> int | None:
    """How many path segments a prefix rewrite or redirect of this rule's route strips; None when it strips the whole
    path, -1 when the route has no such action."""
    match plan.route(rule.route).action:
        case Forward(rewrite=rewrite) if rewrite is not None and rewrite.prefix is not None:
            pass
        case Redirect(prefix=str()):
            pass
        case _:
            return -1
    path = rule.match.path
    return path.value.rstrip("/").count("/") if isinstance(path, PrefixPath) else None


def _distinct_tables(listener: Listener) -> tuple[list[tuple[str, HostTable]], dict[HostPattern | None, str]]:
    """Tables with equal rules once, named after the first host; and the table's name by host."""
    name_of: dict[tuple[object, ...], str] = {}
    tables = []
    names: dict[HostPattern | None, str] = {}
    for table in listener.hosts:
        rules = tuple((rule.route, rule.match) for rule in table.rules)
        if rules not in name_of:
            name_of[rules] = str(table.host) if table.host is not None else _ANY_HOST
            tables.append((name_of[rules], table))
        names[table.host] = name_of[rules]
    return tables, names


def _host_statements(listener: Listener, names: dict[HostPattern | None, str], maps: Maps) -> list[Statement]:
    statements = [_HOST]
    if len(names) == 1:
        return statements
    exact = maps.file("hosts.map", "host -> table")
    wildcards = [host for host in names if host and host.wildcard]
    origins = {table.host: table.rules[0].field if table.rules else "" for table in listener.hosts}
    for host, table in names.items():
        if host is None:
            continue
        if not host.wildcard:
            exact.add(host.name, table, origins[host])
            continue
        maps.file("wildcards.map", "domain whose hosts below it -> table").add(host.name, table, origins[host])
        if HostPattern(host.name) not in names:  # *.x does not cover x
            next_wider = next(each for each in covering_hosts(HostPattern(host.name)) if each in names)
            exact.add(host.name, names[next_wider], origins[next_wider])
    # Host first, then its last labels, most of them first; the last lookup falls back to the table for any host.
    depths = sorted({host.name.count(".") + 1 for host in wildcards}, reverse=True)
    lookups = [f"var(txn.host),map_str({exact.name}"]
    lookups += (f"var(txn.host),field(-1,.,{n}),map_str(maps/{maps.listener}.wildcards.map" for n in depths)
    ends = [")"] * len(depths) + [f",{names[None]})"]
    for number, (lookup, end) in enumerate(zip(lookups, ends, strict=True)):
        statements.append(set_var("txn.table", lookup + end, [~is_set("txn.table")] if number else ()))
    return statements


def _takes_every_path(groups: list[tuple[str, PathGroup]], has_hosts: bool) -> bool:
    """Whether there is one path for all hosts, and all other paths are below it."""
    return not has_hosts and len(groups) == 1 and groups[0][1].kind is PrefixPath and groups[0][1].path == "/"


def _value(group: PathGroup, keys: _RouteKeys, sets: _RuleSets) -> str:
    """`route`, `set:route` or `set:`: the rules to try first, and the route when none of them matches."""
    last = group.candidates[-1]
    default = keys.name(last.rule) if last.unconditional else ""
    conditional = tuple(each.rule for each in group.candidates if not each.unconditional)
    return f"{sets.name(conditional)}:{default}" if conditional else default


def _path_statements(
    values: list[tuple[str, PathGroup, str]], variable: str, has_hosts: bool, maps: Maps
) -> list[Statement]:
    """Look the path up; `values` are (table, path, value for `variable`)."""
    if not values:
        return []
    if _takes_every_path([(table, group) for table, group, _ in values], has_hosts):
        return [set_var(variable, f"str({values[0][2]})", origin=values[0][1].candidates[0].rule.field)]
    for table, paths, value in values:
        table_key = f"{table}|" if has_hosts else ""
        origin = paths.candidates[0].rule.field
        if paths.kind is ExactPath:
            maps.file("exact.map", "exact path -> route").add(table_key + paths.path, value, origin)
        else:
            path = paths.path.rstrip("/") + "/"
            maps.file("prefix.map", "path prefix -> route").add(table_key + path, value, origin)
    statements = []
    key = "path"
    has_escapes = any("%" in group.path for _, group, _ in values)
    if has_escapes:
        statements.append(set_var("txn.path", "path"))
        key = "var(txn.path)"
        is_lower = [acl("path -m reg '%[0-9A-F]?[a-f]'")]
        statements.append(set_var("txn.path", "path,lua.upper_escapes", is_lower))
    if has_hosts:
        of_table = Literal(f"%[var(txn.table)]|%[{key}]")
        statements.append(statement("http-request set-var-fmt(txn.key)", of_table))
        key = "var(txn.key)"
    kinds = {group.kind for _, group, _ in values}
    if ExactPath in kinds:
        statements.append(set_var(variable, f"{key},map_str(maps/{maps.listener}.exact.map)"))
    if PrefixPath in kinds:
        lookup = f"{key},concat(/),map_beg(maps/{maps.listener}.prefix.map)"
        statements.append(set_var(variable, lookup, [~is_set(variable)] if ExactPath in kinds else ()))
    return statements


def _rule_statements(rules: list[Rule], sets: _RuleSets, keys: _RouteKeys, conditions: Conditions) -> list[Statement]:
    """Try rules one by one."""
    statements: list[Statement] = []
    for rule in rules:
        acls = conditions.of(rule.match, rule.field)
        in_set = conditions.maps.is_one_of("var(txn.set)", sets.rules[rule.id][1], f"{rule.id}.sets", {}, most=10)
        unrouted = [~acl_named("routed")] if statements else []
        statements.append(set_var(ROUTE, f"str({keys.name(rule)})", [*unrouted, in_set, *acls], rule.field))
    return [*conditions.variables, *conditions.acls, *statements]
