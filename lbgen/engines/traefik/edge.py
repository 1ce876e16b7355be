"""An L7 listener -> the configuration of its edge: routes, rules and per-host tables by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.plan.model import Forward, PathKind, Redirect, Respond
from lbgen.plan.precedence import path_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.document import Data
    from lbgen.plan.model import HeaderEdits, HostTable, Listener, NamedMatch, Plan, Pool, Rewrite, Route, Rule
    from lbgen.plan.precedence import Candidate

# Traefik fills these in before any middleware runs; a rule that asks for one needs the request as it came.
_FILLED_IN = frozenset(
    {"host", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-real-ip", "x-forwarded-server"}
)


def edge(plan: Plan, listener: Listener) -> Tagged:
    """The edge's configuration. Rules are in order of rank; each route appears once."""
    pools = {pool.name: pool for pool in plan.pools}
    routes = {route.name: route for route in plan.routes}
    rules = sorted({rule.rank: rule for table in listener.hosts for rule in table.rules}.values(), key=lambda r: r.rank)
    used = {name: index for index, name in enumerate(dict.fromkeys(rule.route for rule in rules))}
    place = {rule.rank: index for index, rule in enumerate(rules)}
    data: dict[str, Data] = {
        "address": f"[{listener.address}]" if ":" in listener.address else listener.address,
        "port": str(listener.port),
        "forwarded": listener.forwarded_headers,
        "requestID": listener.request_id,
        "headTime": listener.timeouts.header,
        "peek": any(wanted.name in _FILLED_IN for rule in rules for wanted in rule.match.headers),
    }
    if listener.trusted_proxies:
        data["trusted"] = list(listener.trusted_proxies)
    data["routes"] = [_route(routes[name], pools) for name in used]
    data["rules"] = [_rule(rule, used[rule.route]) for rule in rules]
    data["tables"] = [_table(table, place) for table in listener.hosts]
    return Tagged(listener.field, data)


def _route(route: Route, pools: Mapping[str, Pool]) -> Tagged:
    data: dict[str, Data] = {}
    match route.action:
        case Forward() as forward:
            data["targets"] = _targets(route, forward, pools)
            data["connect"] = forward.timeouts.connect
            data["response"] = forward.timeouts.response
            data["idle"] = forward.timeouts.idle
            if forward.rewrite is not None:
                data["rewrite"] = _rewrite(forward.rewrite)
        case Redirect() as redirect:
            data["redirect"] = _redirect(redirect)
        case Respond() as respond:
            data["respond"] = {
                "status": respond.status,
                "body": respond.body,
                "headers": [{"name": name, "value": value} for name, value in respond.headers],
            }
        case _:
            assert_never(route.action)
    if route.request_headers:
        data["request"] = _edits(route.request_headers)
    if route.response_headers:
        data["reply"] = _edits(route.response_headers)
    return Tagged(route.field, data)


def native_split(forward: Forward) -> bool:
    """Whether Traefik's weighted service can share out the requests: several pools, no header of a target's own."""
    return len(forward.targets) > 1 and not any(target.request_headers for target in forward.targets)


def _targets(route: Route, forward: Forward, pools: Mapping[str, Pool]) -> list[Data]:
    if native_split(forward) and all(_able(pools[target.pool]) for target in forward.targets):
        return [{"service": names.split(route), "weight": 1}]
    targets: list[Data] = []
    for target in forward.targets:
        if not target.weight:
            continue
        pool = pools[target.pool]
        data: dict[str, Data] = {"service": names.pool(pool) if _able(pool) else "", "weight": target.weight}
        if target.request_headers:
            data["request"] = _edits(target.request_headers)
        targets.append(Tagged(target.field, data))
    return targets


def _able(pool: Pool) -> bool:
    """Whether any endpoint takes new requests."""
    return any(endpoint.weight for endpoint in pool.endpoints)


def _rewrite(rewrite: Rewrite) -> dict[str, Data]:
    given = {"path": rewrite.path, "prefix": rewrite.prefix, "host": rewrite.host}
    return {key: value for key, value in given.items() if value is not None}


def _redirect(redirect: Redirect) -> dict[str, Data]:
    given = {
        "scheme": redirect.scheme,
        "host": redirect.host,
        "port": None if redirect.port is None else str(redirect.port),
        "path": redirect.path,
        "prefix": redirect.prefix,
    }
    return {"status": redirect.status, **{key: value for key, value in given.items() if value is not None}}


def _edits(edits: HeaderEdits) -> dict[str, Data]:
    data: dict[str, Data] = {}
    if edits.remove:
        data["remove"] = list(edits.remove)
    if edits.set:
        data["set"] = [{"name": name, "value": value} for name, value in edits.set]
    if edits.add:
        data["add"] = [{"name": name, "value": value} for name, value in edits.add]
    return data


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
            data[key] = [_named(each) for each in wanted]
    return Tagged(rule.field, data)


def _named(wanted: NamedMatch) -> dict[str, Data]:
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
