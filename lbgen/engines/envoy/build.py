"""A plan as one envoy.yaml, with the node, runtime keys and the admin interface beside its resources; where lbgen runs
it, the resources are in files that Envoy watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile, version_key
from lbgen.engines.document import comment_on, origin
from lbgen.engines.envoy.listeners import build_listener
from lbgen.engines.envoy.live import build_live
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.run import FILE, STATS_PATH, STATUS_PATH
from lbgen.engines.envoy.tls import build_secrets
from lbgen.engines.envoy.upstreams import build_clusters, plan_clusters
from lbgen.engines.users import users_files
from lbgen.engines.verbatim import entries, keys
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Mode, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

KEYS = ("admin", "node", "header_prefix", "overload_manager", "layered_runtime")
_FEATURE = "envoy.reloadable_features."
_MOST_CONNECTIONS = 50_000
NOTES = {
    "admin": "Who can reach it can stop Envoy: it is on loopback, or a file of Envoy's user alone (384 is 0600).",
    "header_prefix": "Envoy obeys request headers with this prefix; with the default, x-envoy, it would obey clients.",
    "overload_manager": "Clients can exhaust neither descriptors nor the memory that a container has.",
}
_CONNECT_NOTE = "A pool has a cluster for each connect timeout, and for each retry budget, of its routes."


def build(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files; the same plan gives the same bytes."""
    clusters = plan_clusters(plan)
    header = f"{origin(plan)}: Envoy {version}. Edit the topology, not this file."
    added = read_bootstrap_keys(plan)
    secrets = build_secrets(plan)
    bootstrap = build_static(plan, version, node=plan.admin_port is not None or bool(added) or bool(secrets))
    files = [RenderedFile(name, *dump({"resources": [secret]}, header)) for name, secret in secrets.items()]
    listeners: list[Data] = [
        *(build_listener(plan, version, listener, clusters) for listener in plan.listeners),
        *entries(plan, "envoy", "listeners"),
    ]
    used: list[Data] = [
        *build_clusters(plan, clusters),
        *entries(plan, "envoy", "clusters"),
    ]
    if plan.admin_port is not None:  # where Envoy says what it made of a change
        bootstrap |= added
        return (*files, *build_live(comment_on(bootstrap, NOTES), listeners, used, header), *users_files(plan))
    notes = {"clusters": _CONNECT_NOTE} if any(len(each) > 1 for each in clusters.options.values()) else {}
    bootstrap["static_resources"] = comment_on({"listeners": listeners, "clusters": used}, notes)
    bootstrap |= added
    return (*files, RenderedFile(FILE, *dump(comment_on(bootstrap, NOTES), header, anchors=True)), *users_files(plan))


def read_bootstrap_keys(plan: Plan) -> dict[str, Data]:
    """The keys that the topology adds to the top level. Raises NotDataError."""
    return keys(plan, "envoy", "bootstrap", ("static_resources", *KEYS))


def build_static(plan: Plan, version: str, *, node: bool = False) -> dict[str, Data]:
    """These keys of the bootstrap; resources from elsewhere need a `node`."""
    return {
        **_build_admin(plan),
        **({"node": {"id": "lbgen", "cluster": "lbgen"}} if node else {}),
        "header_prefix": "x-lbgen",
        "overload_manager": _build_overload_manager(plan),
        "layered_runtime": {"layers": _build_layers(plan, version)},
    }


def _build_overload_manager(plan: Plan) -> dict[str, Data]:
    heap, connections = (
        "envoy.resource_monitors.fixed_heap",
        "envoy.resource_monitors.global_downstream_max_connections",
    )
    kind = "resource_monitors"
    return {
        "resource_monitors": [
            extension(
                connections,
                f"{kind}.downstream_connections.v3.DownstreamConnectionsConfig",
                {"max_active_downstream_connections": _MOST_CONNECTIONS},
            ),
            extension(heap, f"{kind}.fixed_heap.v3.FixedHeapConfig", {"max_heap_size_bytes": plan.containers.memory}),
        ],
        "actions": [
            _act("envoy.overload_actions.shrink_heap", heap, 0.9),
            _act("envoy.overload_actions.stop_accepting_requests", heap, 0.95),
        ],
    }


def _act(action: str, monitor: str, above: float) -> dict[str, Data]:
    return {"name": action, "triggers": [{"name": monitor, "threshold": {"value": above}}]}


def _build_admin(plan: Plan) -> dict[str, Data]:
    """Others than Envoy's user may reach a port on loopback, so without one it is a socket in Envoy's folder."""
    if plan.admin_port is None:
        return {"admin": {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}}}
    address: Data = {"socket_address": {"address": "127.0.0.1", "port_value": plan.admin_port}}
    found: dict[str, Data] = {"address": address, "ignore_global_conn_limit": True}
    if plan.admin_shared:
        # Others can reach the port: it answers nothing that changes or stops Envoy.
        found["allow_paths"] = [{"exact": each} for each in (STATUS_PATH, STATS_PATH)]
    return {"admin": found}


def _build_layers(plan: Plan, version: str) -> list[Data]:
    """Runtime keys; those that limit the connections of listeners are a layer of their own."""
    l7 = any(listener.mode is Mode.L7 for listener in plan.listeners)
    found: dict[str, Data] = {"re2.max_program_size.error_level": 100_000}
    # Guards that older versions do not have.
    if l7 and version_key(version) >= (1, 38):
        found[f"{_FEATURE}strict_chunk_parsing"] = True
    if l7 and version_key(version) >= (1, 39):
        found[f"{_FEATURE}re2_use_latin1_mode"] = False
    notes = {
        f"{_FEATURE}strict_chunk_parsing": "A chunk must have the length that it declares.",
        f"{_FEATURE}re2_use_latin1_mode": "Regexes match characters, not bytes.",
        "re2.max_program_size.error_level": "The default of 100 is for regexes of untrusted users.",
    }
    layers: list[Data] = [{"name": "static", "static_layer": comment_on(found, notes)}]
    limits: dict[str, Data] = {
        f"envoy.resource_limits.listener.{listener.name}.connection_limit": listener.max_connections
        for listener in plan.listeners
        if listener.max_connections is not None
    }
    return [*layers, {"name": "listeners", "static_layer": limits}] if limits else layers
