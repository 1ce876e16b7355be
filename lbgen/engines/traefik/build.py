"""A plan as Traefik's files: traefik.yaml, dynamic/http.yaml, those of L4 and TLS, and the plugin where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import Commented, origin
from lbgen.engines.traefik import names, plugin, tcp_weights
from lbgen.engines.traefik.access_log import build_access_log
from lbgen.engines.traefik.forward_auth import build_asking
from lbgen.engines.traefik.forwarded_headers import build_bare, name_bare
from lbgen.engines.traefik.health_status import build_status_route
from lbgen.engines.traefik.l4 import build_tcp, build_udp, explain_tcp
from lbgen.engines.traefik.listeners import (
    build_entry_points,
    build_guard,
    build_requests,
    have_same_routers,
    name_guard,
    name_requests,
)
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.quote import quote_data
from lbgen.engines.traefik.routers import build_routers
from lbgen.engines.traefik.routes import Routes
from lbgen.engines.traefik.tls import build_tls, build_unknown_names
from lbgen.engines.traefik.view import internal_port
from lbgen.engines.users import users_files
from lbgen.engines.verbatim import keys
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Mode, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data


_WIDTH = 160  # columns, so that most routers are one line
_PRIVATE: dict[str, Data] = {"checkNewVersion": False, "sendAnonymousUsage": False}


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    http = _http(plan, version) if any(listener.mode is Mode.L7 for listener in plan.listeners) else {}
    plugged = _uses_plugin(http)
    run = "Run in this folder: traefik --configFile=traefik.yaml"
    static = f"Traefik's static configuration of the topology {plan.name}. {run}"
    static_keys = build_static(plan, version, plugged=plugged) | read_static_keys(plan, version)
    files = [RenderedFile("traefik.yaml", *dump(static_keys, static, _WIDTH))]
    if http:
        files.append(_dynamic(plan, "http", "routers, middlewares and services", {"http": http}))
    if plugged:
        files.extend(plugin.load_sources())
    level4 = build_tcp(plan, [listener for listener in plan.listeners if listener.mode is Mode.L4])
    if level4:
        shown = {"tcp": explain_tcp(level4)}
        files.append(_dynamic(plan, "tcp", "connections that are forwarded as they are", shown))
        files.extend(tcp_weights.build_files(plan))
    if datagrams := build_udp(plan, plan.listeners):
        files.append(_dynamic(plan, "udp", "datagrams", {"udp": datagrams}))
    if encrypted := build_tls(plan.listeners):
        data: dict[str, Data] = {"tls": encrypted}
        if any((unknown := build_unknown_names(plan.listeners)).values()):
            data["tcp"] = unknown
        files.append(_dynamic(plan, "tls", "certificates, options, connections for unknown names", data))
    if plan.admin_port is not None:
        api: Data = {"entryPoints": [names.ADMIN], "rule": "PathPrefix(`/api`)", "service": "api@internal"}
        status = build_status_route()
        status["routers"] = {names.ADMIN: api, **status["routers"]}
        files.append(_dynamic(plan, "admin", "the status API", {"http": status}))
        # A chain of nothing costs nothing.
        nothing: Data = {"http": {"middlewares": {names.DRAIN: {"chain": {"middlewares": []}}}}}
        files.append(RenderedFile(names.DRAIN_FILE, *dump(nothing, f"{origin(plan)}: replaced to drain.", _WIDTH)))
    if own := read_dynamic_keys(plan):
        header = f"{origin(plan)}: the topology's own text."
        files.append(RenderedFile("dynamic/verbatim.yaml", *dump(own, header, _WIDTH)))
    files.extend(users_files(plan))
    return tuple(files)


def read_static_keys(plan: Plan, version: str) -> dict[str, Data]:
    """The keys that the topology adds to traefik.yaml. Raises NotDataError."""
    return keys(plan, "traefik", "static", ("api", *build_static(plan, version, plugged=True)))


def read_dynamic_keys(plan: Plan) -> dict[str, Data]:
    """The keys of the topology's own dynamic file. Raises NotDataError."""
    return keys(plan, "traefik", "dynamic")


def build_static(plan: Plan, version: str, *, plugged: bool) -> dict[str, Data]:
    """The static configuration as data."""
    data: dict[str, Data] = {
        "global": _PRIVATE,
        "log": Commented(
            "By default Traefik logs errors alone; an endpoint that fails its checks is a warning.", {"level": "WARN"}
        ),
    }
    if plan.admin_port is not None:
        data["api"] = {"dashboard": False}
    log = build_access_log(plan)
    internal: dict[str, Data] = {"address": f"127.0.0.1:{internal_port(plan)}", **build_asking(plan)}
    if names.has_alias_headers(version):
        internal["http"] = {"aliasHeadersStrategy": "delete"}
    if log:
        internal["observability"] = {"accessLogs": False}
    comment = (
        "On a port of their own, for this host alone: /ping and /metrics. Counts by service would cost 10 % more CPU."
    )
    data["ping"] = Commented(comment, _INTERNAL, apart=True)
    data["metrics"] = {"prometheus": {**_INTERNAL, "addEntryPointsLabels": False, "addServicesLabels": False}}
    points = {**build_entry_points(plan, version), names.ADMIN: internal}
    comment = "The listeners. Routers that name none belong to those with asDefault."
    data["entryPoints"] = Commented(comment if have_same_routers(plan) else "The listeners.", points, apart=True)
    if plugged:
        comment = "What Traefik's own middlewares lack. Without the plugin, requests must not be served."
        data["experimental"] = Commented(comment, plugin.build_experimental(), apart=True)
    providers: Data = {"providersThrottleDuration": "0s", "file": {"directory": "dynamic", "watch": True}}
    data["providers"] = Commented(
        "Each change takes effect at once; by default Traefik takes one in two seconds.", providers, apart=True
    )
    if log:
        data["accessLog"] = log
    return data


_INTERNAL: dict[str, Data] = {"entryPoint": names.ADMIN}


def _http(plan: Plan, version: str) -> dict[str, Data]:
    routes = Routes(plan)
    routers = build_routers(plan, routes, version) | routes.build_asked()
    comment = "One for each rule, the highest priority first."
    if any(MARK in name for name in routers):
        comment += f" NAME{MARK}2 is a further rule of the route NAME."
    if any(isinstance(data, dict) and "parentRefs" in data for data in routers.values()):
        comment += "\nThose without a service choose among the routers below them, so that few are tried for a request."
    comment += "\nThe first ones refuse what an endpoint could read in another way than rules do."
    sections: dict[str, Data] = {"routers": Commented(comment, routers)}
    every: dict[str, Data] = {}
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            every[name_bare(listener)] = every.get(name_bare(listener)) or build_bare(listener)
            every[name_requests(plan, listener)] = build_requests(plan, listener)
            every[name_guard(listener)] = build_guard(listener, version)
    if middlewares := {name: data for name, data in every.items() if data} | routes.middlewares():
        sections["middlewares"] = Commented(routes.explain_middlewares(), middlewares, apart=True)
    if services := routes.services.build():
        sections["services"] = Commented("Pools of endpoints, and what combines them.", services, apart=True)
    if transports := routes.services.build_transports():
        comment = "How endpoints are connected to. A transport without maxIdleConnsPerHost would keep two connections."
        sections["serversTransports"] = Commented(comment, transports, apart=True)
    return sections


def _uses_plugin(http: dict[str, Data]) -> bool:
    middlewares = http.get("middlewares")
    found = middlewares.value if isinstance(middlewares, Commented) else {}
    return isinstance(found, dict) and any("plugin" in each for each in found.values() if isinstance(each, dict))


def _dynamic(plan: Plan, name: str, what: str, data: Data) -> RenderedFile:
    header = f"{origin(plan)}: {what}. Traefik reads this file again when it changes."
    return RenderedFile(f"dynamic/{name}.yaml", *dump(quote_data(data), header, _WIDTH))
