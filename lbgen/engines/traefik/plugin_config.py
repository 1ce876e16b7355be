"""The plugin's configuration on the router of an entry point: what is checked, and the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged, comment_on
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.traefik.conditions import find_asked
from lbgen.engines.traefik.names import ACCESS_LOG
from lbgen.engines.traefik.routes import build_access, find_used_pools
from lbgen.engines.traefik.upstreams import build_pool
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan, Rule

_OF_RULES = "Of all rules: whether any names a host, their shortest idle time, and what of a request they look at."


def build_plugin_config(plan: Plan, listener: Listener, rules: Sequence[Rule]) -> Tagged:
    """The configuration; `rules` are those of the listener."""
    used_pools = find_used_pools(plan.route(rule.route) for rule in rules)
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
    of_rules: dict[str, Data] = {}
    if any(rule.host is not None for rule in rules):
        of_rules["named"] = True
    if idle := _shortest_idle(plan, rules):
        of_rules["idle"] = idle
    if asked := find_asked(rules):
        of_rules["asks"] = asked
    data |= comment_on(of_rules, dict.fromkeys([*of_rules][:1], _OF_RULES))
    if used_pools:
        data["pools"] = [build_pool(plan, pool) for pool in plan.pools if pool.name in used_pools]
    return Tagged(listener.field, data)


def _shortest_idle(plan: Plan, rules: Sequence[Rule]) -> int:
    """By it the plugin looks for silent answers; 0 when no route has an idle time."""
    actions = [plan.route(rule.route).action for rule in rules]
    return min(
        (action.timeouts.idle for action in actions if isinstance(action, Forward) and action.timeouts.idle), default=0
    )


def _log_files(listener: Listener) -> str:
    """The files that get a line for each request, separated by commas."""
    files = ((ACCESS_LOG, listener.access_log), (METRICS_LOG, listener.metrics))
    return ",".join(file for file, is_written in files if is_written)


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
        "log": _log_files(listener),
    }
    return {key: value for key, value in asked.items() if value}
