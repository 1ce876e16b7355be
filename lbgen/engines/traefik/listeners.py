"""The routers of an L7 listener: one for the entry point, on which the plugin checks requests, and below it one for
each rule, on which the plugin does what the route asks for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.conditions import ANY, build_rule, escape_path, widen_rules
from lbgen.engines.traefik.matching import count_rules, find_priority
from lbgen.engines.traefik.plugin_config import build_plugin_config
from lbgen.engines.traefik.prefix_trees import Tree
from lbgen.engines.traefik.routes import asks_for_a_pool, build_route
from lbgen.engines.traefik.tls import build_closed_service, build_closing_routers
from lbgen.plan.model import Forward, Mode, PathKind, Redirect

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Route, Rule


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
    prefix = _prefix(plan, listener)
    parents: dict[tuple[str, ...], list[str]] = {}  # one list for all rules below the same routers
    for rule in rules:
        route = plan.route(rule.route)
        matched = _matched(route, rule)
        name = action = prefix + names.escape(rule.route)
        if counts[rule.route] > 1:
            name = f"{name}.{rule.id.rpartition('.')[2]}"
            action = name if matched else action
        above = parents.setdefault(tuple(tree.parents[rule.rank]), tree.parents[rule.rank])
        routers[name] = Tagged(rule.field, _child(above, build_rule(rule), find_priority(rule, total), action))
        if action not in middlewares:
            built = build_route(route)
            config: dict[str, Data] = {"listener": listener.name, **matched, "route": built}
            if not listener.logs and asks_for_a_pool(route, built):
                config["bare"] = True
            middlewares[action] = Tagged(route.field, {"plugin": {names.PLUGIN: config}})
    if not any(rule.match.covers_all for table in listener.hosts[-1:] for rule in table.rules):
        lost = f"{edge}.lost"
        routers[lost] = Tagged(listener.field, _child(tree.leaves, ANY, 1, lost))
        middlewares[lost] = {"plugin": {names.PLUGIN: {"listener": listener.name, "lost": True}}}
    widen_rules(routers, version)
    return {
        "http": {"routers": routers, "middlewares": middlewares},
        "tcp": {"routers": build_closing_routers(listener), "services": build_closed_service(edge)},
    }


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
