"""The plugin's configuration for an L7 listener: routes, rules and per-host tables, which refer to each other by
index."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.traefik.names import ACCESS_LOG
from lbgen.engines.traefik.routes import build_access, build_route, find_used_pools
from lbgen.engines.traefik.upstreams import build_pool
from lbgen.plan.model import PathKind
from lbgen.plan.precedence import path_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.document import Data
    from lbgen.plan.model import HostTable, Listener, NamedMatch, Plan, Rule
    from lbgen.plan.precedence import Candidate


def build_plugin_config(plan: Plan, listener: Listener) -> Tagged:
    """The configuration. Rules are in order of rank; each route and pool appears once."""
    routes = {route.name: route for route in plan.routes}
    rules = sorted({rule.rank: rule for table in listener.hosts for rule in table.rules}.values(), key=lambda r: r.rank)
    used = {name: index for index, name in enumerate(dict.fromkeys(rule.route for rule in rules))}
    place = {rule.rank: index for index, rule in enumerate(rules)}
    used_pools = find_used_pools(routes[name] for name in used)
    pools = {pool.name: index for index, pool in enumerate(p for p in plan.pools if p.name in used_pools)}
    data: dict[str, Data] = {
        "listener": listener.name,
        "address": f"[{listener.address}]" if ":" in listener.address else listener.address,
        "port": str(listener.client_port),
        "scheme": listener.scheme,
        "forwarded": listener.forwarded_headers,
        "requestID": listener.request_id,
        "headTime": listener.timeouts.header,
        "bodyTime": listener.timeouts.body,
        "mode": str(listener.paths.mode),
        **_optional_settings(listener),
    }
    if plan.options("traefik").verbatim:
        data["through"] = True
    if pools:
        data["pools"] = [build_pool(plan, plan.pool(name)) for name in pools]
    data["routes"] = [build_route(routes[name], pools) for name in used]
    data["rules"] = [_rule(rule, used[rule.route]) for rule in rules]
    data["tables"] = [_table(table, place) for table in listener.hosts]
    return Tagged(listener.field, data)


def _optional_settings(listener: Listener) -> dict[str, Data]:
    """Settings that most listeners leave at their default."""
    paths, limits = listener.paths, listener.limits
    asked: dict[str, Data] = {
        "http2": listener.http2,
        "bound": str(listener.port) if listener.client_port != listener.port else None,
        "proxied": listener.proxy_protocol,
        "trusted": list(listener.trusted_proxies),
        "empty": paths.empty_segments,
        "slash": paths.encoded_slash,
        "plain": paths.encoded_unreserved,
        "underscores": listener.underscores,
        "headers": limits.headers,
        "target": limits.target,
        "most": listener.max_connections,
        "access": None if listener.access is None else build_access(listener.access),
        "log": ACCESS_LOG if listener.access_log else None,
    }
    return {key: value for key, value in asked.items() if value}


def _rule(rule: Rule, route: int) -> Tagged:
    match = rule.match
    data: dict[str, Data] = {"path": match.path.value, "route": route}
    match match.path.kind:
        case PathKind.EXACT:
            pass
        case PathKind.REGEX:
            data["regex"] = True
        case PathKind.PREFIX:
            data["prefix"] = True
        case _:
            assert_never(match.path.kind)
    if match.methods:
        data["methods"] = list(match.methods)
    for key, wanted in (("headers", match.headers), ("query", match.query), ("cookies", match.cookies)):
        if wanted:
            data[key] = [_condition(each) for each in wanted]
    return Tagged(rule.field, data)


def _condition(wanted: NamedMatch) -> dict[str, Data]:
    return {"name": wanted.name, "kind": str(wanted.value.kind), "value": wanted.value.value}


def _table(table: HostTable, place: Mapping[int, int]) -> dict[str, Data]:
    data: dict[str, Data] = {"host": "" if table.host is None else str(table.host)}
    groups = path_groups(table.rules)
    for key, kind in (("exact", PathKind.EXACT), ("prefix", PathKind.PREFIX)):
        found = [
            {"path": group.path, "rules": _candidates(group.candidates, place)}
            for group in groups
            if group.kind is kind
        ]
        if found:
            data[key] = found
    return data


def _candidates(candidates: Iterable[Candidate], place: Mapping[int, int]) -> str:
    return " ".join(f"{place[each.rule.rank]}{'~' if each.test_path else ''}" for each in candidates)
