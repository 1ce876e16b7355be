"""The files of a Traefik without the plugin: what they hold, and that text of a topology stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import lbgen
from lbgen.engines.rendered import explain
from lbgen.engines.traefik import ENGINE
from lbgen.engines.traefik.native import is_native
from tests.unit.engines.traefik.native.test_matching import plan_of

SHOP = Path(__file__).parents[5] / "examples" / "shop" / "topology.yaml"


def files_of(*routes: dict[str, Any], **more: Any) -> dict[str, Any]:
    plan = plan_of(list(routes), **more)
    return {file.name: yaml.safe_load(file.text) for file in ENGINE.render(plan, "3.7")}


def http_of(*routes: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = files_of(*routes, **more)["dynamic/http.yaml"]["http"]
    return found


def test_only_a_plan_that_leaves_everything_to_the_engine_is_native():
    route = {"name": "a", "forward": "app"}
    assert is_native(plan_of([route]))
    assert not is_native(plan_of([route], profile="production"))
    assert not is_native(plan_of([route], guarantees={"answers": "contract"}))
    assert not is_native(plan_of([route], paths={"mode": "verbatim"}))
    two = {"web": {"port": 8080}, "second": {"port": 8081, "guarantees": {"framing": "contract"}}}
    assert not is_native(plan_of([route], listeners=two))


def test_a_plain_plan_has_no_plugin_and_two_files():
    files = files_of({"name": "a", "forward": "app"})
    assert list(files) == ["traefik.yaml", "dynamic/http.yaml"]
    assert "experimental" not in files["traefik.yaml"]
    assert "middlewares" not in files["dynamic/http.yaml"]["http"]


def test_escapes_that_could_form_another_path_are_refused_and_the_rest_resolved():
    (point,) = files_of({"name": "a", "forward": "app"})["traefik.yaml"]["entryPoints"].values()
    assert point["http"]["sanitizePath"] is True
    refused = {name for name, allowed in point["http"]["encodedCharacters"].items() if not allowed}
    assert refused == {"allowEncodedSlash", "allowEncodedBackSlash", "allowEncodedNullCharacter"}
    assert len(point["http"]["encodedCharacters"]) == 7


def test_a_plain_topology_of_the_profile_needs_no_flag_on_any_engine():
    plan = plan_of([{"name": "a", "forward": "app"}])
    for engine in ("nginx", "haproxy", "envoy", "traefik"):
        assert lbgen.render(plan, engine=engine).files


def test_the_shop_fits_on_a_few_pages_that_no_plugin_reads():
    text = yaml.safe_load(SHOP.read_text(encoding="utf-8"))
    plan = lbgen.plan(lbgen.load({**text, "profile": "native"}))
    files = ENGINE.render(plan, "3.7")
    lines = [line.strip() for file in files for line in file.text.splitlines()]
    assert sum(1 for line in lines if line and not line.startswith("#")) <= 100
    assert all(len(file.origins) == file.text.count("\n") for file in files)
    assert not any("plugin" in file.text for file in files)


def test_verdicts_are_those_of_traefik_itself():
    route = {"name": "a", "forward": "app", "timeouts": {"request": "5s"}}
    found = {str(answer.feature): answer.verdict for answer in explain(plan_of([route]), "traefik")}
    assert found["timeouts.request"].level == "refused"
    assert found["request_id"].level == "approximate"
    assert found["match.host"].level == "native" if "match.host" in found else True
    exact = explain(plan_of([route], guarantees={"answers": "contract"}), "traefik")
    assert {str(answer.feature): answer.verdict.level for answer in exact}["timeouts.request"] == "emulated"


def test_what_an_l4_route_asks_for_is_judged_as_ever():
    listeners = {"web": {"port": 8080}, "db": {"port": 5432, "mode": "l4"}}
    checked = {"endpoints": [{"address": "10.0.0.2:80"}], "health": {"active": {}}}
    pools = {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "db": checked}
    routes = [
        {"name": "a", "listeners": ["web"], "forward": "app"},
        {"name": "db", "listeners": ["db"], "forward": "db"},
    ]
    found = explain(plan_of(routes, listeners=listeners, pools=pools), "traefik")
    levels = {str(answer.feature): answer.verdict.level for answer in found if not answer.place}
    assert levels["pool.health.active"] == "emulated"
    pools["app"]["health"] = {"active": {"path": "/"}}
    found = explain(plan_of(routes, listeners=listeners, pools=pools), "traefik")
    levels = {str(answer.feature): answer.verdict.level for answer in found if not answer.place}
    assert levels["pool.health.active"] == "approximate"


@pytest.mark.parametrize(
    "more",
    [
        {"redirect": {"host": "a.test", "status": 303}},
        {"max_body": "0B"},
    ],
)
def test_what_traefik_cannot_do_is_refused_by_place(more):
    route = {"name": "a", **more} if "redirect" in more else {"name": "a", "forward": "app", **more}
    levels = {answer.verdict.level for answer in explain(plan_of([route]), "traefik") if answer.place}
    assert "refused" in levels


def test_an_access_list_behind_a_proxy_is_refused_since_it_would_admit_everybody():
    listeners = {"web": {"port": 8080, "trusted_proxies": ["10.0.0.0/8"]}}
    route = {"name": "a", "forward": "app", "access": {"allow": ["10.0.0.0/8"]}}
    found = [answer for answer in explain(plan_of([route], listeners=listeners), "traefik") if answer.place]
    assert [(str(answer.feature), answer.verdict.level) for answer in found] == [("route.access", "refused")]


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
    assert http["middlewares"] == {"headers": {"headers": {"customResponseHeaders": {"X-Frame-Options": "DENY"}}}}
    assert [router["middlewares"] for router in http["routers"].values()] == [["headers"], ["headers"]]


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
    route = {"name": "a", "forward": "app", "response_headers": {"set": {"x-a": "1"}}, "max_body": "1KiB"}
    assert http_of(route)["routers"]["a"]["middlewares"] == ["a-headers", "a-body"]


def test_listeners_with_other_tls_options_are_kept_apart_by_a_router_of_their_own(tmp_path):
    from lbgen.runtime.common.certificates import temporary_certificates

    tls = {"certificates": [{"cert": "shop.crt", "key": "shop.key"}]}
    names = sorted(path.name for path in temporary_certificates().iterdir())
    pair = next(name[:-4] for name in names if name.endswith(".crt") and name[:-4] + ".key" in names)
    tls = {"certificates": [{"cert": f"{pair}.crt", "key": f"{pair}.key"}]}
    data = {
        "version": 1,
        "name": "t",
        "profile": "native",
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
