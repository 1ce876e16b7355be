"""TLS of listeners: certificates, options, and connections for names that no certificate holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.traefik import names, tls
from lbgen.engines.traefik.tls import build_closed_service, build_closing_routers, find_terminating
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan


def build_tls(plan: Plan) -> dict[str, Data]:
    """The `tls` section; empty without TLS. Options that all listeners share are Traefik's default ones."""
    data = tls.build_tls(plan.listeners)
    if data and _share_options(plan):
        listener, each = next(find_terminating(plan.listeners))
        data["options"] = {"default": tls.build_options(listener, each)}
    return data


def find_options(plan: Plan) -> dict[str, Data]:
    """The `tls` of the routers of each L7 listener that terminates TLS."""
    shared = _share_options(plan)
    return {
        listener.name: {} if shared else {"options": names.edge(listener)}
        for listener, _ in find_terminating(plan.listeners)
        if listener.mode is Mode.L7
    }


def _share_options(plan: Plan) -> bool:
    found = [
        (listener.http2, each.min_version, each.curves, each.ciphers, each.client_ca, each.client_required)
        for listener, each in find_terminating(plan.listeners)
    ]
    return len(set(found)) == 1 and all(listener.mode is Mode.L7 for listener, _ in find_terminating(plan.listeners))


def build_unknown_names(plan: Plan) -> dict[str, dict[str, Data]]:
    """The TCP routers that close connections for names that no certificate of their listener holds, and the service
    without servers that does it."""
    routers: dict[str, Data] = {}
    services: dict[str, Data] = {}
    for listener, _ in find_terminating(plan.listeners):
        if listener.mode is Mode.L7:
            unknown = f"{names.edge(listener)}-unknown"
            routers[unknown] = build_closing_routers(listener)[unknown]
            services.update(build_closed_service(names.edge(listener)))
    return {"routers": routers, "services": services}
