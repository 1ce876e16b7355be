"""A plan -> Traefik's files: `traefik.yaml`, `dynamic/`, and the plugin for L7 listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import Tagged, dump
from lbgen.engines.traefik import health_status, names, readiness, tcp_weights
from lbgen.engines.traefik.l4 import tcp, udp
from lbgen.engines.traefik.plugin import sources
from lbgen.engines.traefik.plugin_config import edge
from lbgen.engines.traefik.quote import escaped
from lbgen.engines.traefik.static import static
from lbgen.engines.traefik.tls import closed_service, closing, tls_section
from lbgen.engines.verbatim import keys
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan

_STATIC = "Traefik, static part, made by lbgen. Run in this folder: traefik --configFile=traefik.yaml"
_DYNAMIC = "Traefik, dynamic part, made by lbgen; read again whenever it changes."
_ANY = "Host(`*`)"  # with it come TLS options for every server name, and for none; a path may be empty


def render(plan: Plan) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    files = [_file("traefik.yaml", static(plan) | own_static(plan), _STATIC)]
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    for listener in level7:
        files.append(_file(f"dynamic/{names.edge(listener)}.yaml", _listener(plan, listener)))
    if level7:
        files.extend(sources())
    level4 = tcp(plan, [listener for listener in plan.listeners if listener.mode is Mode.L4])
    if level4:
        files.append(_file("dynamic/tcp.yaml", {"tcp": level4}))
        files.extend(tcp_weights.files(plan))
    if datagrams := udp(plan, plan.listeners):
        files.append(_file("dynamic/udp.yaml", {"udp": datagrams}))
    if encrypted := tls_section(plan.listeners):
        files.append(_file("dynamic/tls.yaml", {"tls": encrypted}))
    if plan.admin_port is not None:
        api: Data = {"entryPoints": [names.ADMIN], "rule": "PathPrefix(`/api`)", "service": "api@internal"}
        files.append(_file("dynamic/admin.yaml", {"http": {"routers": {names.ADMIN: api}}}))
        if level7:  # the plugin alone knows of those endpoints
            files.append(_file("dynamic/endpoints.yaml", {"http": health_status.section()}))
        if told := readiness.section(plan):
            files.append(_file("dynamic/ready.yaml", {"http": told}))
    if own := own_dynamic(plan):
        files.append(RenderedFile("dynamic/verbatim.yaml", *dump(own, _DYNAMIC)))
    return tuple(files)


def own_static(plan: Plan) -> dict[str, Data]:
    """What the topology adds to traefik.yaml. Raises NotDataError."""
    return keys(plan, "traefik", "static", ("api", "experimental", *static(plan)))


def own_dynamic(plan: Plan) -> dict[str, Data]:
    """The topology's own dynamic file. Raises NotDataError."""
    return keys(plan, "traefik", "dynamic")


def _file(name: str, data: Data, header: str = _DYNAMIC) -> RenderedFile:
    text, origins = dump(escaped(data) if name.startswith("dynamic/") else data, header)
    return RenderedFile(name, text, origins)


def _listener(plan: Plan, listener: Listener) -> dict[str, Data]:
    """The router of an entry point with the edge on it, which answers everything that is HTTP of the right kind."""
    name = names.edge(listener)
    router: dict[str, Data] = {
        "entryPoints": [names.entry_point(listener)],
        "rule": _ANY,
        "priority": 1,
        "middlewares": [name],
        "service": "noop@internal",
    }
    if listener.tls is not None:
        router["tls"] = {"options": name}
    return {
        "http": {
            "routers": {name: Tagged(listener.field, router)},
            "middlewares": {name: Tagged(listener.field, {"plugin": {names.PLUGIN: edge(plan, listener)}})},
        },
        "tcp": {"routers": closing(listener), "services": closed_service(name)},
    }
