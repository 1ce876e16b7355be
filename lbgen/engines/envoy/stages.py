"""The order in which a running Envoy takes over its files: what comes, then what leads to it, then what leaves."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from lbgen.engines.api import Taken
from lbgen.engines.envoy.live import CLUSTERS, ENDPOINTS, LISTENERS, ROUTES, write_resources
from lbgen.engines.envoy.run import LIVE, STATS_PATH, STATUS_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(r'^version_info: "([0-9a-f]+(?:-kept-([0-9]+))?)"', re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plan_stages(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """See `lbgen.engines.api.Staged`.

    First all clusters, old and new, and all endpoints; then routes and listeners; then what is left of the clusters.
    Connections of a listener that changed go on with its former routes, whose clusters stay until the next change.
    """
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    by_kind = {kind: {x: y for x, y in changed.items() if _kind(x) == kind} for kind in map(_kind, changed)}
    first, last = dict[str, str](), dict[str, str]()
    for name, text in by_kind.get(ENDPOINTS, {}).items():
        first[name] = _union_of_endpoints(before[name], text) if name in before else text
        if first[name] != text:
            last[name] = text
    clusters = _find(after, CLUSTERS)
    if clusters is not None:
        first[clusters], kept = _union_of_clusters(before.get(clusters, ""), after[clusters])
        if kept and (by_kind.get(LISTENERS) or any(_kind(name) == ROUTES for name in before.keys() - after.keys())):
            first |= {name: before[name] for name in before if _stat(name) in kept}
        elif kept:
            last[clusters] = after[clusters]
        if first[clusters] == before.get(clusters):
            del first[clusters]
    second = {**by_kind.get(ROUTES, {}), **by_kind.get(LISTENERS, {})}
    return tuple(each for each in (first, second, last) if each)


def read_taken(stage: Mapping[str, str], answers: Mapping[str, str]) -> Taken:
    """See `lbgen.engines.api.Staged`."""
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
    return Taken(tuple(missing), warm and not _has_unchecked(answers[STATUS_PATH]), refusals)


def _has_unchecked(answer: str) -> bool:
    """Whether an endpoint waits for its first check."""
    return any(
        host.get("health_status", {}).get("pending_active_hc")
        for cluster in json.loads(answer).get("cluster_statuses", ())
        for host in cluster.get("host_statuses", ())
    )


def _kind(name: str) -> str:
    """CLUSTERS, LISTENERS, ROUTES or ENDPOINTS."""
    path = PurePosixPath(name)
    return f"{path.parent.name}/" if f"{path.parent.name}/" in (ROUTES, ENDPOINTS) else path.name


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
    return write_resources([*wanted, *left], f"-kept-{len(left)}")[0], {f"cluster.{each['name']}" for each in left}


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
    return write_resources([{**new, "endpoints": endpoints}])[0]


def _address(host: Mapping[str, Any]) -> str:
    return json.dumps(host["endpoint"]["address"], sort_keys=True)
