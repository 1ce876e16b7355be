"""A plan as envoy.yaml: listeners, clusters and the admin interface added to templates/envoy/bootstrap.yaml; and the
endpoint files that Envoy watches."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import yaml

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import dump
from lbgen.engines.envoy.endpoint_slots import build_wait_cluster, build_wait_extension, build_wait_listener, has_queues
from lbgen.engines.envoy.listeners import build_listener
from lbgen.engines.envoy.run import FILE, STATUS_PATH
from lbgen.engines.envoy.upstreams import build_clusters, build_endpoint_files, plan_clusters
from lbgen.engines.verbatim import entries, keys
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan

# The loader in pure Python takes longer than the whole build.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def build(plan: Plan) -> tuple[RenderedFile, ...]:
    """All files; the same plan gives the same bytes."""
    clusters = plan_clusters(plan)
    header, static = _load_templates()
    bootstrap: dict[str, Data] = {}
    if plan.admin_port is not None:
        address: dict[str, Data] = {"address": "127.0.0.1", "port_value": plan.admin_port}
        # If others can reach the port, it answers nothing that changes or stops Envoy.
        only: dict[str, Data] = {"allow_paths": [{"exact": STATUS_PATH}]} if plan.admin_shared else {}
        bootstrap["admin"] = {"address": {"socket_address": address}, **only}
    bootstrap |= _add_connection_limits(static, plan)
    queues = has_queues(plan)
    if queues:
        bootstrap["bootstrap_extensions"] = [build_wait_extension()]
    bootstrap["static_resources"] = {
        "listeners": [
            *(build_listener(plan, listener, clusters) for listener in plan.listeners),
            *([build_wait_listener()] if queues else ()),
            *entries(plan, "envoy", "listeners"),
        ],
        "clusters": [
            *build_clusters(plan, clusters),
            *([build_wait_cluster()] if queues else ()),
            *entries(plan, "envoy", "clusters"),
        ],
    }
    bootstrap |= read_bootstrap_keys(plan)
    text, origins = dump(bootstrap, header)
    watched = (RenderedFile(name, *dump(data, header)) for name, data in build_endpoint_files(plan, clusters))
    return RenderedFile(FILE, text, origins), *watched


def read_bootstrap_keys(plan: Plan) -> dict[str, Data]:
    """The keys that the topology adds to the top level. Raises NotDataError."""
    taken = ("admin", "bootstrap_extensions", "static_resources", *_load_templates()[1])
    return keys(plan, "envoy", "bootstrap", taken)


def _add_connection_limits(static: dict[str, Data], plan: Plan) -> dict[str, Data]:
    """`static` with the runtime keys that limit the connections of listeners."""
    limits: dict[str, Data] = {
        f"envoy.resource_limits.listener.{listener.name}.connection_limit": listener.max_connections
        for listener in plan.listeners
        if listener.max_connections is not None
    }
    if not limits:
        return static
    layer: Data = {"name": "listeners", "static_layer": limits}
    runtime = static["layered_runtime"]
    layers = runtime["layers"] if isinstance(runtime, dict) else []
    return {**static, "layered_runtime": {"layers": [*(layers if isinstance(layers, list) else ()), layer]}}


@cache
def _load_templates() -> tuple[str, dict[str, Data]]:
    place = folder("templates") / "envoy"
    header = (place / "header.txt").read_text(encoding="utf-8")
    text = (place / "bootstrap.yaml").read_text(encoding="utf-8")
    static: dict[str, Data] = yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe one
    return header, static
