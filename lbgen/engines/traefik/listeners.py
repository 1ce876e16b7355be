"""The routers of an L7 listener: one for the entry point, on which the plugin checks requests, and below it one for
each rule, on which the plugin does what the route asks for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.conditions import ANY, build_rule, escape_path, has_path_expressions, widen_rules
from lbgen.engines.traefik.matching import count_rules, find_priority
from lbgen.engines.traefik.plugin_config import build_plugin_config
from lbgen.engines.traefik.prefix_trees import Tree
from lbgen.engines.traefik.routes import asks_for_a_pool, build_route
from lbgen.engines.traefik.tls import build_closed_service, build_closing_routers
from lbgen.plan.model import Forward, Mode, PathKind, Redirect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Route, Rule

_ROUTERS = (
    "{} takes each request of the entry point: its middleware checks it, and prepares what the rules look at.\n"
    "Then one router for each rule, the highest priority first: its middleware answers or forwards, so no service does."
)
_PATHS = "\nLbgen-Path is the path as it was sent; PathRegexp would see a decoded one."
_MIDDLEWARES = (
    "Settings of the plugin, whose source is in plugins-local: first of the listener, then of each route.\n"
    "Times are in milliseconds{}, sizes in bytes; a limit of 0 is none."
)
_MAX_AGE = ", maxAge in seconds"
_PERCENT = "\nbudget and percent are in hundredths of a percent."
_MATCHED = "\nmatched is the prefix or path that a rewrite or redirect replaces."
_BARE = "The route needs a pool and nothing else, so the plugin takes a shorter way."
_CLOSED_TLS = "Closes TLS connections, which Traefik would answer by itself."
_CLOSED = "Closes what Traefik would answer by itself: plain HTTP, and server names that no certificate holds."


def build_listener(plan: Plan, listener: Listener, version: str) -> dict[str, Data]:
    """The dynamic configuration of a listener."""
    edge = names.edge(listener)
    rules = sorted({rule.rank: rule for table in listener.hosts for rule in table.rules}.values(), key=lambda r: r.rank)
    tree = Tree(edge, listener.hosts, escape_path)
    total = count_rules(rules) + 1  # the last priority is that of the answer to requests that no rule takes
    routers: dict[str, Data] = {edge: _entry_router(listener)}
    middlewares: dict[str, Data] = {
        edge: Tagged(listener.field, {"plugin": {names.PLUGIN: build_plugin_config(plan, listener, rules)}})
    }
    for group in tree.groups:
        routers[group.name] = Tagged(
            listener.field, {"parentRefs": [group.parent], "rule": group.rule, "priority": group.priority}
        )
    counts = Counter(rule.route for rule in rules)
    replaced: dict[str, list[dict[str, Data]]] = {}  # by route, what its rules match
    for rule in rules:
        if (matched := _matched(plan.route(rule.route), rule)) not in (known := replaced.setdefault(rule.route, [])):
            known.append(matched)
    prefix = _prefix(plan, listener)
    is_bare_explained = False
    parents: dict[tuple[str, ...], list[str]] = {}  # one list for all rules below the same routers
    for rule in rules:
        route = plan.route(rule.route)
        matched = _matched(route, rule)
        name = action = prefix + names.escape(rule.route)
        if counts[rule.route] > 1:
            name = f"{name}.{rule.id.rpartition('.')[2]}"
            action = name if len(replaced[rule.route]) > 1 else action
        above = parents.setdefault(tuple(tree.parents[rule.rank]), tree.parents[rule.rank])
        routers[name] = Tagged(rule.field, _child(above, build_rule(rule), find_priority(rule, total), action))
        if action not in middlewares:
            built = build_route(route)
            config: dict[str, Data] = {"listener": listener.name, **matched, "route": built}
            if not listener.logs and asks_for_a_pool(route, built):
                config["bare"] = True if is_bare_explained else Commented(_BARE, True)
                is_bare_explained = True
            middlewares[action] = Tagged(route.field, {"plugin": {names.PLUGIN: config}})
    if not any(rule.match.covers_all for table in listener.hosts[-1:] for rule in table.rules):
        not_found = f"{edge}.not-found"
        routers[not_found] = Tagged(listener.field, _child(tree.leaves, ANY, 1, not_found))
        answer: Data = {"plugin": {names.PLUGIN: {"listener": listener.name, "lost": True}}}
        middlewares[not_found] = Commented("Answers 404: no rule takes the request.", answer)
    widen_rules(routers, version)
    return {
        "http": {
            "routers": Commented(_ROUTERS.format(edge) + _PATHS * has_path_expressions(rules), routers),
            "middlewares": Commented(_explain_middlewares(plan, rules), middlewares, apart=True),
        },
        "tcp": Commented(
            _CLOSED_TLS if listener.tls is None else _CLOSED,
            {"routers": build_closing_routers(listener), "services": build_closed_service(edge)},
            apart=True,
        ),
    }


def _explain_middlewares(plan: Plan, rules: Sequence[Rule]) -> str:
    """The comment above the plugin's settings for these rules."""
    routes = [plan.route(rule.route) for rule in rules]
    forwards = [route.action for route in routes if isinstance(route.action, Forward)]
    has_shares = any(each.mirrors or each.retries for each in forwards)
    is_replaced = any(_matched(route, rule) for route, rule in zip(routes, rules, strict=True))
    has_age = any(route.cors is not None for route in routes)
    return _MIDDLEWARES.format(_MAX_AGE * has_age) + _PERCENT * has_shares + _MATCHED * is_replaced


def _entry_router(listener: Listener) -> Tagged:
    """The router that gets every request of an entry point."""
    edge = names.edge(listener)
    router: dict[str, Data] = {
        "entryPoints": [names.entry_point(listener)],
        "rule": ANY,
        "priority": 1,
        "middlewares": [edge],
    }
    if listener.tls is not None:
        router["tls"] = {"options": edge}
    return Tagged(listener.field, router)


def _child(parents: Data, rule: str, priority: int, middleware: str) -> dict[str, Data]:
    return {
        "parentRefs": parents,
        "rule": rule,
        "priority": priority,
        "middlewares": [middleware],
        "service": "noop@internal",
    }


def _prefix(plan: Plan, listener: Listener) -> str:
    """What the names of routers begin with where there are those of other listeners, or the topology's own ones; dots
    separate parts, names have none."""
    several = sum(each.mode is Mode.L7 for each in plan.listeners) > 1
    return f"{names.escape(listener.name)}." if several or plan.options("traefik").verbatim else ""


def _matched(route: Route, rule: Rule) -> dict[str, Data]:
    """What the rule matches, where the route replaces that."""
    action = route.action
    to = action.rewrite if isinstance(action, Forward) else action if isinstance(action, Redirect) else None
    if to is None or not to.prefix:
        return {}
    prefix = rule.match.path.kind is PathKind.PREFIX
    return {"matched": rule.match.path.value, **({"prefix": True} if prefix else {})}
