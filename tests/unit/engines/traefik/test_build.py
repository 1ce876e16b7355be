"""Traefik's files: what they hold, where they need the plugin, and that text of a topology stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import lbgen
from lbgen.engines.api import Binary
from lbgen.engines.rendered import explain
from lbgen.engines.traefik import ENGINE, names
from lbgen.engines.traefik.quote import quote_text
from lbgen.engines.traefik.run import judge
from lbgen.plan.overlay import with_admin
from lbgen.runtime.common.certificates import temporary_certificates
from tests.unit.engines.traefik.test_routers import plan_of

SHOP = Path(__file__).parents[4] / "examples" / "shop" / "topology.yaml"


def files_of(*routes: dict[str, Any], **more: Any) -> dict[str, Any]:
    plan = plan_of(list(routes), **more)
    found = (file for file in ENGINE.render(plan, "3.7") if not file.name.startswith("plugins-local/"))
    return {file.name: yaml.safe_load(file.text) for file in found}


def http_of(*routes: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = files_of(*routes, **more)["dynamic/http.yaml"]["http"]
    return found


def test_listeners_of_other_settings_have_their_own_middleware_for_requests():
    trusted = {"port": 8081, "trusted_proxies": ["10.0.0.0/8"]}
    listeners = {"web": {"port": 8080}, "inner": trusted, "other": {"port": 8082}}
    files = files_of({"name": "a", "forward": "app"}, profile="production", listeners=listeners)
    points = files["traefik.yaml"]["entryPoints"]
    found = [points[name]["http"]["middlewares"] for name in listeners]
    assert found == [["requests@file"], ["requests~inner@file"], ["requests@file"]]
    assert {"requests", "requests~inner"} <= set(files["dynamic/http.yaml"]["http"]["middlewares"])


def test_clients_behind_proxies_are_found_before_the_rules_that_deny_some():
    listeners = {"web": {"port": 8080, "trusted_proxies": ["10.0.0.0/8"]}}
    limited = {"name": "a", "forward": "app", "rate_limit": {"rate": "1/s", "key": "client_ip"}}
    point = files_of(limited, listeners=listeners)["traefik.yaml"]["entryPoints"]["web"]
    assert point["http"]["middlewares"] == ["requests@file"]
    denied = {"name": "a", "forward": "app", "access": {"deny": ["192.0.2.0/24"]}}
    routers = http_of(denied, listeners=listeners)["routers"]
    assert routers["clients~web"]["middlewares"] == ["requests"]
    assert all(each["parentRefs"] == ["clients~web"] for name, each in routers.items() if name != "clients~web")


def test_backups_are_a_service_to_fail_over_to():
    endpoints = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80", "backup": True}]
    pools = {"app": {"endpoints": endpoints, "health": {"active": {"path": "/"}}}}
    services = http_of({"name": "a", "forward": "app"}, pools=pools)["services"]
    assert services["app~failover"] == {"failover": {"service": "app", "fallback": "app~backup"}}
    assert services["app~backup"]["loadBalancer"]["servers"] == [{"url": "http://10.0.0.2:80"}]


def test_the_internal_entry_point_is_on_loopback_beside_the_listeners():
    files = files_of({"name": "a", "forward": "app"}, listeners={"web": {"port": 8080}, "inner": {"port": 8082}})
    assert files["traefik.yaml"]["entryPoints"]["lbgen-admin"]["address"] == "127.0.0.1:8083"
    assert files["traefik.yaml"]["ping"] == {"entryPoint": "lbgen-admin"}
    assert files["traefik.yaml"]["metrics"] == {
        "prometheus": {"entryPoint": "lbgen-admin", "addEntryPointsLabels": False, "addServicesLabels": False}
    }
    plan = with_admin(plan_of([{"name": "a", "forward": "app"}]), 9999)
    rendered = {file.name: yaml.safe_load(file.text) for file in ENGINE.render(plan, "3.7")}
    assert rendered["traefik.yaml"]["entryPoints"]["lbgen-admin"]["address"] == "127.0.0.1:9999"
    assert rendered["dynamic/admin.yaml"]["http"]["routers"]["lbgen-admin"]["service"] == "api@internal"


def test_a_file_that_is_replaced_makes_all_answers_the_last_of_their_connections():
    plan = with_admin(plan_of([{"name": "a", "forward": "app"}]), 9999)
    rendered = {file.name: yaml.safe_load(file.text) for file in ENGINE.render(plan, "3.7")}
    drain = ENGINE.process(plan, Binary(Path("traefik"), "3.7.15"), Path()).drain_file
    assert drain is not None
    [name] = rendered[drain[0]]["http"]["middlewares"]
    assert rendered["traefik.yaml"]["entryPoints"]["web"]["http"]["middlewares"][0] == f"{name}@file"
    last = yaml.safe_load(drain[1])["http"]["middlewares"][name]
    assert last == {"headers": {"customResponseHeaders": {"Connection": "close"}}}


def test_the_shop_fits_on_a_few_pages():
    rendered = ENGINE.render(lbgen.plan(lbgen.load(SHOP)), "3.7")
    files = [file for file in rendered if not file.name.startswith("plugins-local/")]
    lines = [line.strip() for file in files for line in file.text.splitlines()]
    assert sum(1 for line in lines if line and not line.startswith("#")) <= 100
    assert all(len(file.origins) == file.text.count("\n") for file in files)


def levels_of(*routes: dict[str, Any], **more: Any) -> dict[tuple[str, str], str]:
    found = explain(plan_of(list(routes), **more), "traefik")
    return {(str(each.feature), "place" if each.place else ""): str(each.verdict.level) for each in found}


def test_checks_of_l7_pools_are_judged_by_place():
    listeners = {"web": {"port": 8080}, "db": {"port": 5432, "mode": "l4"}}
    checked = {"endpoints": [{"address": "10.0.0.2:80"}], "health": {"active": {}}}
    pools = {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "db": checked}
    routes = [
        {"name": "a", "listeners": ["web"], "forward": "app"},
        {"name": "db", "listeners": ["db"], "forward": "db"},
    ]
    levels = levels_of(*routes, listeners=listeners, pools=pools)
    assert levels["pool.health.active", ""] == "emulated"
    assert ("pool.health.active", "place") not in levels
    pools["app"]["health"] = {"active": {"path": "/"}}
    assert levels_of(*routes, listeners=listeners, pools=pools)["pool.health.active", "place"] == "habit"
    pools["app"]["health"] = {"active": {"path": "/", "expect": [204, 404]}}
    assert levels_of(*routes, listeners=listeners, pools=pools)["pool.health.active", "place"] == "approximate"


def test_text_of_a_topology_is_no_template_and_ends_no_scalar():
    text = '{{ env "HOME" }} `x` \' " \\ $1 #'
    plan = plan_of([{"name": "a", "forward": "app", "response_headers": {"set": {"x-text": text}}}])
    rendered = {file.name: file.text for file in ENGINE.render(plan, "3.7")}["dynamic/http.yaml"]
    assert "{{ env" not in rendered
    found = yaml.safe_load(rendered.replace("{{`{{`}}", "{{"))["http"]["middlewares"]["a-headers"]
    assert found == {"headers": {"customResponseHeaders": {"X-Text": text}}}


def test_equal_middlewares_are_one_with_the_name_of_what_they_do():
    edits = {"set": {"x-frame-options": "DENY"}}
    routes = [
        {"name": name, "match": [{"path": {"prefix": f"/{name}"}}], "forward": "app", "response_headers": edits}
        for name in "ab"
    ]
    http = http_of(*routes)
    assert http["middlewares"]["headers"] == {"headers": {"customResponseHeaders": {"X-Frame-Options": "DENY"}}}
    assert [http["routers"][name]["middlewares"] for name in "ab"] == [["headers"], ["headers"]]


def test_a_pool_with_other_times_is_another_service_with_another_transport():
    routes = (
        {"name": "a", "match": [{"path": {"prefix": "/a"}}], "forward": "app", "timeouts": {"response": "1500ms"}},
        {"name": "b", "forward": "app"},
    )
    http = http_of(*routes)
    assert set(http["services"]) == {"app", "app~b"}
    transports = http["serversTransports"]
    times = {name: each["forwardingTimeouts"]["responseHeaderTimeout"] for name, each in transports.items()}
    used = {name: each["loadBalancer"]["serversTransport"] for name, each in http["services"].items()}
    assert {name: times[transport] for name, transport in used.items()} == {"app": "1500ms", "app~b": "60s"}


def test_response_headers_show_on_answers_of_limits_too():
    rate = {"rate": "1/s", "key": "client_ip"}
    route = {"name": "a", "forward": "app", "response_headers": {"set": {"x-a": "1"}}, "rate_limit": rate}
    assert http_of(route)["routers"]["a"]["middlewares"] == ["a-headers", "a-rate"]


def test_listeners_with_other_tls_options_are_kept_apart_by_a_router_of_their_own():
    names = sorted(path.name for path in temporary_certificates().iterdir())
    pair = next(name[:-4] for name in names if name.endswith(".crt") and name[:-4] + ".key" in names)
    tls = {"certificates": [{"cert": f"{pair}.crt", "key": f"{pair}.key"}]}
    data = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "listeners": {"one": {"port": 1443, "tls": tls}, "two": {"port": 2443, "tls": {**tls, "policy": "modern"}}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "a", "forward": "app"}],
    }
    plan = lbgen.plan(lbgen.load(data, base=temporary_certificates()))
    files = {file.name: yaml.safe_load(file.text) for file in ENGINE.render(plan, "3.7")}
    routers = files["dynamic/http.yaml"]["http"]["routers"]
    assert routers["tls~one"]["rule"] == "Host(`*`)"
    assert routers["tls~one"]["tls"] == {"options": "edge-one"}
    assert routers["a"]["parentRefs"] == ["tls~one"]
    assert routers["a~two"]["parentRefs"] == ["tls~two"]
    del data["listeners"]["two"]
    plan = lbgen.plan(lbgen.load(data, base=temporary_certificates()))
    files = {file.name: yaml.safe_load(file.text) for file in ENGINE.render(plan, "3.7")}
    assert files["dynamic/http.yaml"]["http"]["routers"]["a"]["tls"] == {}
    assert set(files["dynamic/tls.yaml"]["tls"]["options"]) == {"default"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("{{ env }}", "{{`{{`}} env }}"), ("{ {", "{ {"), ("{{{", "{{`{{`}}{"), ("`$%", "`$%"), ("", "")],
)
def test_template_actions_become_literals(text, wanted):
    assert quote_text(text) == wanted


def test_names_stay_apart_without_dots():
    assert len({names.escape(name) for name in ("a.b", "a-b", "ab", "a.b.c")}) == 4


def test_judge_reads_the_log_and_the_api():
    log = "\x1b[90m2026-01-01T00:00:00Z\x1b[0m \x1b[31mERR\x1b[0m error=bad file\n2026-01-01T00:00:00Z INF fine\n"
    api = {"/api/http/routers": [{"name": "a@file", "status": "disabled", "error": ["no service"]}], "/x": None}
    assert judge(0, log, api) == (
        "ERR error=bad file",
        "/api/http/routers: a@file is disabled: no service",
        "/x: no list came back",
    )


def test_judge_is_content_with_a_stopped_healthy_instance():
    assert judge(-15, "", {"/api/http/routers": [{"name": "a", "status": "enabled"}]}) == ()
    assert judge(1, "", {}) == ("traefik ended with exit code 1",)
