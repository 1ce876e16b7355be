"""A plan -> Traefik's files: `traefik.yaml`, `dynamic/`, and the plugin for L7 listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import Tagged, dump
from lbgen.engines.traefik import names
from lbgen.engines.traefik.edge import edge
from lbgen.engines.traefik.l4 import tcp
from lbgen.engines.traefik.plugin import sources
from lbgen.engines.traefik.quote import escaped
from lbgen.engines.traefik.services import Known, pool_services, split_service
from lbgen.engines.traefik.static import static
from lbgen.plan.model import Forward, Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan

_STATIC = "Traefik, static part, made by lbgen. Run in this folder: traefik --configFile=traefik.yaml"
_DYNAMIC = "Traefik, dynamic part, made by lbgen; read again whenever it changes."
_ANY = "PathRegexp(`^`)"  # PathPrefix would leave out CONNECT and *, whose path is empty


def render(plan: Plan) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    files = [_file("traefik.yaml", static(plan), _STATIC)]
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    if level7:
        pools = _shared(plan, level7)
        for listener in level7:
            files.append(_file(f"dynamic/{names.edge(listener)}.yaml", {"http": _listener(plan, listener, pools)}))
        if pools:
            files.append(_file("dynamic/pools.yaml", {"http": pools}))
        files.extend(sources())
    level4 = tcp(plan, [listener for listener in plan.listeners if listener.mode is Mode.L4])
    if level4:
        files.append(_file("dynamic/tcp.yaml", {"tcp": level4}))
    if plan.admin_port is not None:
        api: Data = {"entryPoints": [names.ADMIN], "rule": "PathPrefix(`/api`)", "service": "api@internal"}
        files.append(_file("dynamic/admin.yaml", {"http": {"routers": {names.ADMIN: api}}}))
    return tuple(files)


def _file(name: str, data: Data, header: str = _DYNAMIC) -> RenderedFile:
    text, origins = dump(escaped(data) if name.startswith("dynamic/") else data, header)
    return RenderedFile(name, text, origins)


def _shared(plan: Plan, listeners: list[Listener]) -> dict[str, Data]:
    """Services and hops of everything that L7 rules lead to."""
    services: dict[str, Data] = {}
    middlewares: dict[str, Data] = {}
    used = {rule.route for listener in listeners for table in listener.hosts for rule in table.rules}
    routes = [route for route in plan.routes if route.name in used]
    wanted = {t.pool for route in routes if isinstance(route.action, Forward) for t in route.action.targets}
    known = Known.of(plan)
    for pool in plan.pools:
        if pool.name in wanted:
            pool_services(known, pool, services, middlewares)
    pools = {pool.name: pool for pool in plan.pools}
    for route in routes:
        split_service(pools, route, services)
    return {"services": services, "middlewares": middlewares} if services else {}


def _listener(plan: Plan, listener: Listener, pools: dict[str, Data]) -> dict[str, Data]:
    """The parent router with the edge on it, and a child router for each service that the edge may name."""
    name = names.edge(listener)
    conf = edge(plan, listener)
    services = _named(conf)
    parent: dict[str, Data] = {
        "entryPoints": [names.entry_point(listener)],
        "rule": _ANY,
        "priority": 1,
        "middlewares": [name],
    }
    if not services:
        parent["service"] = "noop@internal"  # the edge answers everything
    routers: dict[str, Data] = {name: Tagged(listener.field, parent)}
    for index, service in enumerate(services):
        routers[f"{name}-{service}"] = {
            "parentRefs": [name],
            "rule": f"Header(`{names.SERVICE_HEADER}`, `{service}`)",
            "priority": len(services) - index,
            "service": service,
        }
    return {
        "routers": routers,
        "middlewares": {name: Tagged(listener.field, {"plugin": {names.PLUGIN: {"edge": conf}}})},
    }


def _named(conf: Tagged) -> tuple[str, ...]:
    """The services that the targets of an edge's routes name, each once."""
    routes = conf["routes"]
    if not isinstance(routes, list):
        raise TypeError("an edge's routes are a list")
    targets = [target for route in routes for target in route.get("targets", ())]
    return tuple(dict.fromkeys(target["service"] for target in targets if target["service"]))
