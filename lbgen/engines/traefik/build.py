"""A plan as Traefik's files: `traefik.yaml`, `dynamic/`, and the plugin for L7 listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.origin import origin
from lbgen.engines.traefik import health_status, names, readiness, tcp_weights
from lbgen.engines.traefik.l4 import build_tcp, build_udp, explain_tcp
from lbgen.engines.traefik.listeners import build_listener
from lbgen.engines.traefik.native import build as native
from lbgen.engines.traefik.native import is_native
from lbgen.engines.traefik.plugin import load_sources
from lbgen.engines.traefik.quote import OPEN, quote_data
from lbgen.engines.traefik.static import build_static
from lbgen.engines.traefik.tls import build_tls
from lbgen.engines.verbatim import keys
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan

_STATIC = "Traefik's static configuration of the topology {}. Run in this folder: traefik --configFile=traefik.yaml"
_DYNAMIC = "Traefik's dynamic configuration, which it reads again when it changes."


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    if is_native(plan):
        return native.render(plan, version)
    files = [
        _file("traefik.yaml", build_static(plan, version) | read_static_keys(plan, version), _STATIC.format(plan.name))
    ]
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    for listener in level7:
        files.append(_dynamic(plan, f"dynamic/{names.edge(listener)}.yaml", build_listener(plan, listener, version)))
    if level7:
        files.extend(load_sources())
    level4 = build_tcp(plan, [listener for listener in plan.listeners if listener.mode is Mode.L4])
    if level4:
        files.append(_dynamic(plan, "dynamic/tcp.yaml", {"tcp": explain_tcp(level4)}))
        files.extend(tcp_weights.build_files(plan))
    if datagrams := build_udp(plan, plan.listeners):
        files.append(_dynamic(plan, "dynamic/udp.yaml", {"udp": datagrams}))
    if encrypted := build_tls(plan.listeners):
        files.append(_dynamic(plan, "dynamic/tls.yaml", {"tls": encrypted}))
    if plan.admin_port is not None:
        api: Data = {"entryPoints": [names.ADMIN], "rule": "PathPrefix(`/api`)", "service": "api@internal"}
        files.append(_dynamic(plan, "dynamic/admin.yaml", {"http": {"routers": {names.ADMIN: api}}}))
        if level7:  # only the plugin has the health of these endpoints
            files.append(_dynamic(plan, "dynamic/endpoints.yaml", {"http": health_status.build_status_route()}))
        if route := readiness.build_ready_route(plan):
            files.append(_dynamic(plan, "dynamic/ready.yaml", {"http": route}))
    if own := read_dynamic_keys(plan):
        files.append(RenderedFile("dynamic/verbatim.yaml", *dump(own, f"{origin(plan)}: {_DYNAMIC}")))
    return tuple(files)


def read_static_keys(plan: Plan, version: str) -> dict[str, Data]:
    """The keys that the topology adds to traefik.yaml. Raises NotDataError."""
    if is_native(plan):
        return native.read_static_keys(plan, version)
    return keys(plan, "traefik", "static", ("api", "experimental", *build_static(plan, version)))


def read_dynamic_keys(plan: Plan) -> dict[str, Data]:
    """The keys of the topology's own dynamic file. Raises NotDataError."""
    return keys(plan, "traefik", "dynamic")


def _dynamic(plan: Plan, name: str, data: Data) -> RenderedFile:
    return _file(name, data, f"{origin(plan)}: {_DYNAMIC}")


def _file(name: str, data: Data, header: str) -> RenderedFile:
    text, origins = dump(data, header)
    if name.startswith("dynamic/") and OPEN in text:
        text, origins = dump(quote_data(data), header)
    return RenderedFile(name, text, origins)
