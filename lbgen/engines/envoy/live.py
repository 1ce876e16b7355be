"""Envoy as lbgen runs it: the resources of envoy.yaml in files of their own, which Envoy reads again when they are
replaced by a rename. A listener's routes and a cluster's endpoints have such files too, so that a change of them leaves
the listener or cluster, and what is open through it, as it is. A running Envoy takes over first what comes, then what
leads to it, then what leaves."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from lbgen.engines.api import LoadProgress, RenderedFile
from lbgen.engines.document import Commented, Tagged
from lbgen.engines.envoy.protobuf import typed, watch
from lbgen.engines.envoy.run import FILE, LIVE, STATS_PATH, STATUS_PATH
from lbgen.engines.yaml_writer import dump

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_CLUSTERS, _LISTENERS, _ROUTES, _ENDPOINTS = "clusters.yaml", "listeners.yaml", "routes/", "endpoints/"
_CLUSTER_TYPE = "envoy.config.cluster.v3.Cluster"
_ASSIGNMENT = "envoy.config.endpoint.v3.ClusterLoadAssignment"
_ROUTE_TYPE = "envoy.config.route.v3.RouteConfiguration"
_VERSION = re.compile(r'^version_info: "([0-9a-f]+(?:-kept-([0-9]+))?)"', re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

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
        "cds_config": watch(f"{folder}{_CLUSTERS}"),
        "lds_config": watch(f"{folder}{_LISTENERS}"),
    }
    text, origins = dump({**bootstrap, "dynamic_resources": dynamic}, header)
    return (
        *(_file(f"{folder}{_ENDPOINTS}{name}.yaml", _ASSIGNMENT, [each]) for name, each in endpoints.items()),
        _file(f"{folder}{_CLUSTERS}", _CLUSTER_TYPE, used),
        *(_file(f"{folder}{_ROUTES}{name}.yaml", _ROUTE_TYPE, [each]) for name, each in routes.items()),
        _file(f"{folder}{_LISTENERS}", "envoy.config.listener.v3.Listener", served),
        RenderedFile(FILE, text, origins),
    )


def _write_resources(resources: Sequence[Data], note: str = "") -> tuple[str, tuple[str, ...]]:
    """A file of resources; Envoy names its version, which ends in `note`, once it has taken the file over."""
    text, origins = dump({"resources": resources}, anchors=True)
    return f'version_info: "{_digest(text)}{note}"\n{text}', ("", *origins)


def _file(name: str, kind: str, resources: Iterable[Data]) -> RenderedFile:
    return RenderedFile(name, *_write_resources([_typed(kind, each) for each in resources]))


def _typed(kind: str, resource: Data) -> Data:
    assert isinstance(resource, dict)  # noqa: S101 - every resource is a mapping
    found = typed(kind, resource)
    return Tagged(resource.field, found) if isinstance(resource, Tagged) else found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


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
    rds: Data = {"route_config_name": name, "config_source": watch(f"{folder}{_ROUTES}{name}.yaml")}
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
            made["eds_cluster_config"] = {"eds_config": watch(f"{folder}{_ENDPOINTS}{name}.yaml")}
            # Otherwise Envoy keeps removed endpoints for as long as their checks pass.
            made["ignore_health_on_host_removal"] = True
            # By default Envoy delays updates of weights by up to a second.
            made["common_lb_config"] = {**common, "update_merge_window": "0s"}
        elif key not in ("common_lb_config", "load_assignment"):
            made[key] = value
    return Tagged(cluster.field, made)


def plan_stages(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """See `lbgen.engines.stages.Staged`.

    First all clusters, old and new, and all endpoints; then routes and listeners; then what is left of the clusters.
    Connections of a listener that changed go on with its former routes, whose clusters stay until the next change.
    """
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    by_kind = {kind: {x: y for x, y in changed.items() if _kind(x) == kind} for kind in map(_kind, changed)}
    first, last = dict[str, str](), dict[str, str]()
    for name, text in by_kind.get(_ENDPOINTS, {}).items():
        first[name] = _union_of_endpoints(before[name], text) if name in before else text
        if first[name] != text:
            last[name] = text
    clusters = _find(after, _CLUSTERS)
    if clusters is not None:
        first[clusters], kept = _union_of_clusters(before.get(clusters, ""), after[clusters])
        if kept and (by_kind.get(_LISTENERS) or any(_kind(name) == _ROUTES for name in before.keys() - after.keys())):
            first |= {name: before[name] for name in before if _stat(name) in kept}
        elif kept:
            last[clusters] = after[clusters]
        if first[clusters] == before.get(clusters):
            del first[clusters]
    second = {**by_kind.get(_ROUTES, {}), **by_kind.get(_LISTENERS, {})}
    return tuple(each for each in (first, second, last) if each)


def read_progress(stage: Mapping[str, str], answers: Mapping[str, str]) -> LoadProgress:
    """See `lbgen.engines.stages.Staged`."""
    stats: dict[str, str] = {}
    for line in answers[STATS_PATH].splitlines():
        name, _, value = line.rpartition(": ")
        stats[name] = value.strip().strip('"')
    versions = {_stat(name): name for name in stage}
    found = {versions[key]: value for name, value in stats.items() if (key := _key(name)) in versions}
    missing = [name for name, text in stage.items() if found.get(name) != _version(text)]
    missing += [name for name, value in stats.items() if name.endswith("listeners_warming") and value != "0"]
    warm = all(value == "0" for name, value in stats.items() if name.endswith("warming_clusters"))
    refusals = sum(int(value) for name, value in stats.items() if name.endswith(("update_rejected", "update_failure")))
    return LoadProgress(tuple(missing), warm and not _has_unchecked(answers[STATUS_PATH]), refusals)


def _has_unchecked(answer: str) -> bool:
    """Whether an endpoint waits for its first check."""
    return any(
        host.get("health_status", {}).get("pending_active_hc")
        for cluster in json.loads(answer).get("cluster_statuses", ())
        for host in cluster.get("host_statuses", ())
    )


def _kind(name: str) -> str:
    """_CLUSTERS, _LISTENERS, _ROUTES or _ENDPOINTS."""
    path = PurePosixPath(name)
    return f"{path.parent.name}/" if f"{path.parent.name}/" in (_ROUTES, _ENDPOINTS) else path.name


def _find(files: Mapping[str, str], kind: str) -> str | None:
    return next((name for name in files if name.startswith(LIVE) and _kind(name) == kind), None)


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found.group(1) if found is not None else ""


def _stat(name: str) -> str:
    """Which statistic has the version of the file; of routes its end."""
    stem = PurePosixPath(name).stem.replace(":", "_")
    match _kind(name):
        case "clusters.yaml":
            return "cluster_manager.cds"
        case "listeners.yaml":
            return "listener_manager.lds"
        case "routes/":
            return f"rds.{stem}"
        case _:
            return f"cluster.{stem}"


def _key(stat: str) -> str:
    """`_stat` of the file whose version it has."""
    name = stat.removesuffix(".version_text")
    if name == stat:
        return ""
    return f"rds.{name.partition('.rds.')[2]}" if name.startswith("http.") else name


def _resources(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (yaml.load(text, _LOADER) or {}).get("resources") or []  # noqa: S506 - CSafeLoader
    return found


def _union_of_clusters(before: str, after: str) -> tuple[str, set[str]]:
    """The file `after` with the clusters of the file `before` that it has no more, and their `_stat`s; without those
    that `before` itself only kept."""
    wanted, there = _resources(after), _resources(before)
    names = {each["name"] for each in wanted}
    left: list[dict[str, Any]] = [x for x in there[: len(there) - _count_kept(before)] if x["name"] not in names]
    if not left:
        return after, set()
    return _write_resources([*wanted, *left], f"-kept-{len(left)}")[0], {f"cluster.{each['name']}" for each in left}


def _count_kept(text: str) -> int:
    """How many clusters, the last ones, a file has only because they were kept."""
    found = _VERSION.search(text)
    return int(found.group(2) or 0) if found is not None else 0


def _union_of_endpoints(before: str, after: str) -> str:
    """The file `after` with the endpoints of the file `before` that it has no more, where new ones come: these may have
    to pass a check before they serve."""
    (old,), (new,) = _resources(before), _resources(after)
    had, has = (
        {_address(host): host for group in x["endpoints"] for host in group["lb_endpoints"]} for x in (old, new)
    )
    left = [host for address, host in had.items() if address not in has]
    if not left or has.keys() <= had.keys():
        return after
    first, *others = new["endpoints"]
    endpoints = [{**first, "lb_endpoints": [*first["lb_endpoints"], *left]}, *others]
    return _write_resources([{**new, "endpoints": endpoints}])[0]


def _address(host: Mapping[str, Any]) -> str:
    return json.dumps(host["endpoint"]["address"], sort_keys=True)
