"""The files that lbgen runs Envoy on hold what envoy.yaml holds, and a change reaches them in an order."""

from __future__ import annotations

import copy
import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

import lbgen
from lbgen.engines.api import LoadProgress
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.run import STATS_PATH, STATUS_PATH
from lbgen.plan.overlay import with_admin, without_admin

EXAMPLES = ("content-platform", "loggly", "microservices", "postgres", "shop")
BASE: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}},
    "pools": {
        "a": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]},
        "b": {"endpoints": [{"address": "10.0.1.1:80"}]},
    },
    "routes": [
        {"name": "one", "match": [{"path": {"prefix": "/b"}}], "forward": "b"},
        {"name": "rest", "forward": "a"},
    ],
}


def files(topology: object) -> dict[str, str]:
    plan = with_admin(lbgen.plan(lbgen.load(topology)), 9000)
    return {file.name: file.text for file in ENGINE.render(plan, "1.40")}


def joined(texts: dict[str, str]) -> dict[str, Any]:
    """envoy.yaml with the resources in their places again."""
    found: dict[str, Any] = yaml.safe_load(texts["envoy.yaml"])
    del found["admin"]

    def resources(config: dict[str, Any]) -> list[dict[str, Any]]:
        every = yaml.safe_load(texts[config["path_config_source"]["path"]])["resources"]
        for each in every:
            del each["@type"]
        return list(every)

    dynamic = found.pop("dynamic_resources")
    listeners, clusters = resources(dynamic["lds_config"]), resources(dynamic["cds_config"])
    for listener in listeners:
        for chain in listener.get("filter_chains", ()):
            for each in chain["filters"]:
                if (rds := each["typed_config"].pop("rds", None)) is not None:
                    [each["typed_config"]["route_config"]] = resources(rds["config_source"])
                    each["typed_config"]["route_config"]["name"] = listener["name"]
    for cluster in clusters:
        if cluster.get("type") == "EDS":
            cluster["type"] = "STATIC"
            [cluster["load_assignment"]] = resources(cluster.pop("eds_cluster_config")["eds_config"])
            del cluster["ignore_health_on_host_removal"], cluster["common_lb_config"]["update_merge_window"]
    return {**found, "static_resources": {"listeners": listeners, "clusters": clusters}}


def without_windows(bootstrap: dict[str, Any]) -> dict[str, Any]:
    for cluster in bootstrap["static_resources"]["clusters"]:
        common = cluster.setdefault("common_lb_config", {})
        if cluster.get("type") == "STATIC":
            common.pop("update_merge_window", None)
    return bootstrap


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_files_hold_what_envoy_yaml_holds(example: str) -> None:
    plan = lbgen.plan(lbgen.load(Path(__file__).parents[4] / "examples" / example / "topology.yaml"))
    [static] = ENGINE.render(without_admin(plan), "1.40")
    live = {file.name: file.text for file in ENGINE.render(with_admin(plan, 9000), "1.40")}
    shown = without_windows(joined(live))
    assert shown.pop("node") == {"id": "lbgen", "cluster": "lbgen"}  # without files Envoy needs none
    other = without_windows(yaml.safe_load(static.text))
    assert other.pop("admin")["address"]["pipe"]  # the same interface, elsewhere
    assert shown == other


def stages(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """The kinds of files of each stage; clusters with their names."""
    now, then = files(before), files(after)
    found = ENGINE.stages(watched(now), watched(then))  # type: ignore[attr-defined]
    return [[shown(name, text) for name, text in stage.items()] for stage in found]


def watched(texts: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name != "envoy.yaml"}


def shown(name: str, text: str) -> str:
    path = PurePosixPath(name)
    inside = yaml.safe_load(text)["resources"]
    if path.name == "clusters.yaml":
        return f"clusters {' '.join(each['name'] for each in inside)}"
    if path.parent.name == "endpoints":
        hosts = [
            x["endpoint"]["address"]["socket_address"]["address"] for x in inside[0]["endpoints"][0]["lb_endpoints"]
        ]
        return f"{path.stem} {' '.join(hosts)}"
    return path.parent.name if path.parent.name == "routes" else path.stem


def changed(**pools: list[str]) -> dict[str, Any]:
    made = copy.deepcopy(BASE)
    for name, hosts in pools.items():
        made["pools"][name] = {"endpoints": [{"address": f"{host}:80"} for host in hosts]}
    return made


def test_what_comes_is_there_before_what_leads_to_it_and_what_leaves_goes_last() -> None:
    after = changed(c=["10.0.2.1"])
    del after["pools"]["b"]
    after["routes"][0]["forward"] = "c"
    assert stages(BASE, after) == [["c 10.0.2.1", "clusters a c b"], ["routes"], ["clusters a c"]]


def test_new_endpoints_serve_beside_those_that_leave() -> None:
    assert stages(BASE, changed(a=["10.0.0.2", "10.0.0.3"])) == [
        ["a 10.0.0.2 10.0.0.3 10.0.0.1"],
        ["a 10.0.0.2 10.0.0.3"],
    ]
    assert stages(BASE, changed(a=["10.0.0.2"])) == [["a 10.0.0.2"]]
    assert stages(BASE, BASE) == []


def test_a_listener_that_changes_has_other_routes_and_keeps_the_clusters_of_its_old_ones_once() -> None:
    after = changed(c=["10.0.2.1"])
    del after["pools"]["b"]
    after["routes"][0] |= {"forward": "c", "rate_limit": {"rate": "9/s", "key": "client_ip"}}
    now = watched(files(BASE))
    found = ENGINE.stages(now, watched(files(after)))  # type: ignore[attr-defined]
    assert [[shown(*each) for each in stage.items()] for stage in found] == [
        ["c 10.0.2.1", "clusters a c b", "b 10.0.1.1"],
        ["routes", "listeners"],
    ]
    there = watched(files(after)) | {name: text for stage in found for name, text in stage.items()}
    last = ENGINE.stages(there, watched(files(after)))  # type: ignore[attr-defined]
    assert [[shown(*each) for each in stage.items()] for stage in last] == [["clusters a c"]]


def test_only_the_rest_of_envoy_yaml_needs_another_folder() -> None:
    after = copy.deepcopy(BASE)
    after["routes"][1]["timeouts"] = {"response": "9s"}
    assert files(BASE)["envoy.yaml"] == files(after)["envoy.yaml"]
    after["listeners"]["web"]["max_connections"] = 9
    assert not watched(files(BASE)).keys() & watched(files(after)).keys()


def test_what_envoy_says_of_a_stage() -> None:
    texts = files(BASE)
    stage = watched(texts)
    [routes] = (yaml.safe_load(text) for name, text in stage.items() if "/routes/" in name)
    name = routes["resources"][0]["name"]
    versions = {PurePosixPath(name).stem: yaml.safe_load(text)["version_info"] for name, text in stage.items()}
    stats = {
        "cluster.a.version_text": f'"{versions["a"]}"',
        "cluster.b.version_text": f'"{versions["b"]}"',
        "cluster_manager.cds.version_text": f'"{versions["clusters"]}"',
        "listener_manager.lds.version_text": f'"{versions["listeners"]}"',
        f"http.web.rds.{name}.version_text": f'"{versions[name]}"',
        "cluster_manager.cds.update_rejected": "2",
        "cluster_manager.warming_clusters": "0",
        "listener_manager.total_listeners_warming": "0",
    }

    def progress(hosts: list[dict[str, Any]], **changes: str) -> Any:
        text = "".join(f"{key}: {value}\n" for key, value in {**stats, **changes}.items())
        clusters = json.dumps({"cluster_statuses": [{"name": "a", "host_statuses": hosts}]})
        return ENGINE.load_progress(stage, {STATS_PATH: text, STATUS_PATH: clusters})  # type: ignore[attr-defined]

    assert progress([]) == LoadProgress((), True, 2)
    assert progress([{"health_status": {"pending_active_hc": True}}]) == LoadProgress((), False, 2)
    assert progress([], **{"cluster_manager.warming_clusters": "1"}) == LoadProgress((), False, 2)
    for name in stats:
        if not name.endswith(("rejected", "warming_clusters")):
            assert len(progress([], **{name: "1"}).missing) == 1
