"""A plan as the files of a Traefik without the plugin: traefik.yaml, dynamic/http.yaml, and those of L4 and TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import Commented
from lbgen.engines.origin import origin
from lbgen.engines.traefik import names, tcp_weights
from lbgen.engines.traefik.l4 import build_tcp, build_udp, explain_tcp
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.native.access_log import build_access_log
from lbgen.engines.traefik.native.health_status import build_status_route
from lbgen.engines.traefik.native.listeners import build_entry_points, have_same_routers
from lbgen.engines.traefik.native.matching import build_routers
from lbgen.engines.traefik.native.routes import Routes
from lbgen.engines.traefik.native.tls import build_tls, build_unknown_names
from lbgen.engines.traefik.quote import quote_data
from lbgen.engines.verbatim import keys
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan


_WIDTH = 150  # columns, so that most routers are one line
_PRIVATE: dict[str, Data] = {"checkNewVersion": False, "sendAnonymousUsage": False}


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan` but the topology's own, names relative to the engine's folder."""
    run = "Run in this folder: traefik --configFile=traefik.yaml"
    static = f"Traefik's static configuration of the topology {plan.name}. {run}"
    static_keys = build_static(plan, version) | read_static_keys(plan, version)
    files = [RenderedFile("traefik.yaml", *dump(static_keys, static, _WIDTH))]
    files.append(_dynamic(plan, "http", "routers, middlewares and services", {"http": _http(plan, version)}))
    level4 = build_tcp(plan, [listener for listener in plan.listeners if listener.mode is Mode.L4])
    if level4:
        shown = {"tcp": explain_tcp(level4)}
        files.append(_dynamic(plan, "tcp", "connections that are forwarded as they are", shown))
        files.extend(tcp_weights.build_files(plan))
    if datagrams := build_udp(plan, plan.listeners):
        files.append(_dynamic(plan, "udp", "datagrams", {"udp": datagrams}))
    if encrypted := build_tls(plan):
        data: Data = {"tls": encrypted, "tcp": build_unknown_names(plan)}
        files.append(_dynamic(plan, "tls", "certificates, options, connections for unknown names", data))
    if plan.admin_port is not None:
        api: Data = {"entryPoints": [names.ADMIN], "rule": "PathPrefix(`/api`)", "service": "api@internal"}
        http = build_status_route()
        http["routers"] = {names.ADMIN: api, **http["routers"]}
        files.append(_dynamic(plan, "admin", "the status API", {"http": http}))
    if own := keys(plan, "traefik", "dynamic"):
        header = f"{origin(plan)}: the topology's own text."
        files.append(RenderedFile("dynamic/verbatim.yaml", *dump(own, header, _WIDTH)))
    return tuple(files)


def read_static_keys(plan: Plan, version: str) -> dict[str, Data]:
    """The keys that the topology adds to traefik.yaml. Raises NotDataError."""
    return keys(plan, "traefik", "static", ("api", *build_static(plan, version)))


def build_static(plan: Plan, version: str) -> dict[str, Data]:
    """The static configuration as data."""
    data: dict[str, Data] = {
        "global": _PRIVATE,
        "log": {"level": "ERROR"},
    }
    if plan.admin_port is not None:
        data["api"] = {"dashboard": False}
    points = build_entry_points(plan, version)
    log = build_access_log(plan)
    if plan.admin_port is not None:
        admin: dict[str, Data] = {"address": f"127.0.0.1:{plan.admin_port}"}
        if log:
            admin["observability"] = {"accessLogs": False}
        points[names.ADMIN] = admin
    comment = "The listeners. Routers that name none belong to those with asDefault."
    data["entryPoints"] = Commented(comment if have_same_routers(plan) else "The listeners.", points, apart=True)
    providers: Data = {"providersThrottleDuration": "0s", "file": {"directory": "dynamic", "watch": True}}
    data["providers"] = Commented(
        "Each change takes effect at once; by default Traefik takes one in two seconds.", providers, apart=True
    )
    if log:
        data["accessLog"] = log
    return data


def _http(plan: Plan, version: str) -> dict[str, Data]:
    routes = Routes(plan)
    routers = build_routers(plan, routes, version)
    comment = "One for each rule, the highest priority first."
    if any(MARK in name for name in routers):
        comment += f" NAME{MARK}2 is a further rule of the route NAME."
    if any(isinstance(data, dict) and "parentRefs" in data for data in routers.values()):
        comment += "\nThose without a service choose among the routers below them, so that few are tried for a request."
    sections: dict[str, Data] = {"routers": Commented(comment, routers)}
    if middlewares := routes.middlewares():
        sections["middlewares"] = Commented(routes.explain_middlewares(), middlewares, apart=True)
    if services := routes.services.build():
        sections["services"] = Commented("Pools of endpoints, and what combines them.", services, apart=True)
    if transports := routes.services.build_transports():
        comment = "How endpoints are connected to. A transport without maxIdleConnsPerHost would keep two connections."
        sections["serversTransports"] = Commented(comment, transports, apart=True)
    return sections


def _dynamic(plan: Plan, name: str, what: str, data: Data) -> RenderedFile:
    header = f"{origin(plan)}: {what}. Traefik reads this file again when it changes."
    return RenderedFile(f"dynamic/{name}.yaml", *dump(quote_data(data), header, _WIDTH))
