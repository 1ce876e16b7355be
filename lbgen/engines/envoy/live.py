"""Envoy as lbgen runs it: the resources of envoy.yaml in files of their own, which Envoy reads again when they are
replaced by a rename. A listener's routes and a cluster's endpoints have such files too, so that a change of them leaves
the listener or cluster, and what is open through it, as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import Commented, Tagged
from lbgen.engines.envoy.protobuf import typed
from lbgen.engines.envoy.run import FILE, LIVE
from lbgen.engines.yaml_writer import dump

if TYPE_CHECKING:
    from lbgen.engines.document import Data

CLUSTERS, LISTENERS, ROUTES, ENDPOINTS = "clusters.yaml", "listeners.yaml", "routes/", "endpoints/"
_CLUSTER = "envoy.config.cluster.v3.Cluster"
_DIGITS = 12  # of digests, hexadecimal


def build_live(
    bootstrap: Mapping[str, Data], listeners: Iterable[Data], clusters: Iterable[Data], header: str
) -> tuple[RenderedFile, ...]:
    """envoy.yaml without resources, and their files, in the order in which Envoy needs them.

    Their folder is named by the rest of envoy.yaml: a process that another one replaces keeps its own files.
    """
    folder = f"{LIVE}{_digest(dump(bootstrap)[0])}/"
    routes: dict[str, Data] = {}
    endpoints: dict[str, Data] = {}
    served = [_detach_routes(each, folder, routes) for each in listeners]
    used = [_detach_endpoints(each, folder, endpoints) for each in clusters]
    dynamic: dict[str, Data] = {
        "cds_config": _watch(f"{folder}{CLUSTERS}"),
        "lds_config": _watch(f"{folder}{LISTENERS}"),
    }
    text, origins = dump({**bootstrap, "dynamic_resources": dynamic}, header)
    return (
        *(_file(f"{folder}{ENDPOINTS}{name}.yaml", _ASSIGNMENT, [each]) for name, each in endpoints.items()),
        _file(f"{folder}{CLUSTERS}", _CLUSTER, used),
        *(_file(f"{folder}{ROUTES}{name}.yaml", _ROUTES, [each]) for name, each in routes.items()),
        _file(f"{folder}{LISTENERS}", "envoy.config.listener.v3.Listener", served),
        RenderedFile(FILE, text, origins),
    )


_ASSIGNMENT = "envoy.config.endpoint.v3.ClusterLoadAssignment"
_ROUTES = "envoy.config.route.v3.RouteConfiguration"


def write_resources(resources: Sequence[Data], note: str = "") -> tuple[str, tuple[str, ...]]:
    """A file of resources; Envoy names its version, which ends in `note`, once it has taken the file over."""
    text, origins = dump({"resources": resources}, anchors=True)
    return f'version_info: "{_digest(text)}{note}"\n{text}', ("", *origins)


def _file(name: str, kind: str, resources: Iterable[Data]) -> RenderedFile:
    return RenderedFile(name, *write_resources([_typed(kind, each) for each in resources]))


def _typed(kind: str, resource: Data) -> Data:
    assert isinstance(resource, dict)  # noqa: S101 - every resource is a mapping
    found = typed(kind, resource)
    return Tagged(resource.field, found) if isinstance(resource, Tagged) else found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _watch(path: str) -> dict[str, Data]:
    return {"resource_api_version": "V3", "path_config_source": {"path": path}}


def _detach_routes(listener: Data, folder: str, found: dict[str, Data]) -> Data:
    """The listener with the names of its route configurations in their places; these are added to `found`.

    The name has a digest of the listener: requests that an earlier form of it still serves stay with the routes that
    were made for its filters.
    """
    if not isinstance(listener, Tagged):
        return listener  # of the topology itself, as it stands
    detached = {}
    for chain in _dicts(listener.get("filter_chains")):
        for each in _dicts(chain.get("filters")):
            config = each.get("typed_config")
            if isinstance(config, dict) and "route_config" in config:
                detached[id(config)] = config
    if not detached:
        return listener
    digest = _digest(dump(_replaced(listener, detached, {}))[0])
    name = f"{listener['name']}-{digest}"
    for config in detached.values():
        routes = config["route_config"]
        routes = routes.value if isinstance(routes, Commented) else routes
        assert isinstance(routes, dict)  # noqa: S101 - as built
        found[name] = Tagged(listener.field, {**routes, "name": name})
    rds: Data = {"route_config_name": name, "config_source": _watch(f"{folder}{ROUTES}{name}.yaml")}
    shown = _replaced(listener, detached, {"rds": rds})
    assert isinstance(shown, Tagged)  # noqa: S101 - as it was
    return shown


def _replaced(data: Data, detached: Mapping[int, Data], instead: Mapping[str, Data]) -> Data:
    """`data` with `instead` in place of the routes of the connection managers `detached`."""
    if isinstance(data, dict):
        if id(data) in detached:
            return {**{key: value for key, value in data.items() if key != "route_config"}, **instead}
        made = {key: _replaced(value, detached, instead) for key, value in data.items()}
        return Tagged(data.field, made) if isinstance(data, Tagged) else made
    if isinstance(data, list):
        return [_replaced(each, detached, instead) for each in data]
    return data


def _dicts(data: Data) -> Iterator[dict[str, Data]]:
    if isinstance(data, list):
        yield from (each for each in data if isinstance(each, dict))


def _detach_endpoints(cluster: Data, folder: str, found: dict[str, Data]) -> Data:
    """The cluster with its endpoints in a file, added to `found`, if all have addresses: such a file holds no names."""
    if not isinstance(cluster, Tagged) or cluster.get("type") != "STATIC":
        return cluster
    name, assignment, common = cluster["name"], cluster["load_assignment"], cluster.get("common_lb_config", {})
    assert isinstance(name, str)  # noqa: S101 - as built
    assert isinstance(assignment, dict)  # noqa: S101 - as built
    assert isinstance(common, dict)  # noqa: S101 - as built
    found[name] = Tagged(cluster.field, assignment)
    made: dict[str, Data] = {}
    for key, value in cluster.items():
        if key == "type":
            made["type"] = "EDS"
            made["eds_cluster_config"] = {"eds_config": _watch(f"{folder}{ENDPOINTS}{name}.yaml")}
            # Otherwise Envoy keeps removed endpoints for as long as their checks pass.
            made["ignore_health_on_host_removal"] = True
            # By default Envoy delays updates of weights by up to a second.
            made["common_lb_config"] = {**common, "update_merge_window": "0s"}
        elif key not in ("common_lb_config", "load_assignment"):
            made[key] = value
    return Tagged(cluster.field, made)
