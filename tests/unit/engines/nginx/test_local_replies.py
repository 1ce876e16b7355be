"""What nginx.conf holds where guarantees are left to nginx."""

import pytest

import lbgen
from lbgen.engines.nginx import ENGINE


def rendered(
    version: str = "1.31", listener: dict | None = None, guarantees="engine", topology: dict | None = None, **route
) -> str:
    made = {
        **(topology or {}),
        "version": 1,
        "name": "t",
        "guarantees": guarantees,
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "match": [{"path": {"prefix": "/x"}}], "forward": "p", **route}],
    }
    return ENGINE.render(lbgen.plan(lbgen.load(made)), version)[0].text


@pytest.mark.parametrize("version", ["1.31", "1.22"])
def test_nothing_is_left_that_only_serves_guarantees(version):
    text = rendered(version, response_headers={"set": {"x-a": "1"}})
    for word in ("$unclear_path", "$nominates", "error_page", "@failed", "js_", "/../", "$http2_settings"):
        assert word not in text
    assert "location / { return 404; }" in text


@pytest.mark.parametrize("kept", ["paths", "framing", "connection_options", "answers"])
def test_what_one_listener_keeps_stays(kept):
    left = dict.fromkeys(("paths", "framing", "connection_options", "answers"), "engine")
    text = rendered(guarantees=left | {kept: "contract"})
    assert "if ($refused)" in text
    assert ("js_import" in text) == (kept == "connection_options")
    assert ("location @failed" in text) == (kept == "answers")


def test_statuses_that_a_field_asks_for_stay():
    text = rendered(listener={"limits": {"headers": "4KiB"}, "access": {"deny": ["10.0.0.0/8"]}})
    assert "error_page 414 494 =431 /../refused;" in text
    assert "return 403; }" in text
    assert "return 431; }" in text


def test_retries_need_error_pages_behind_error_pages():
    assert "recursive_error_pages" not in rendered()
    text = rendered(retries={"max": 1, "on": ["connect_failure"]})
    assert "recursive_error_pages on;" in text
    assert "$nominates" not in text


def test_times_of_clients_are_set_once_beside_the_grpc_module():
    made = {
        "version": 1,
        "name": "t",
        "timeouts": {"connect": "1s", "response": "2s", "idle": "2s"},
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"protocol": "http2", "endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "forward": "p"}],
    }
    text = ENGINE.render(lbgen.plan(lbgen.load(made)), "1.22")[0].text
    assert text.count(" send_timeout 2s;") == 1
    assert "grpc_send_timeout 2s;" in text


ALL = {"match": [{"path": {"prefix": "/"}}]}
LOGS = {"access_log": "json"}


@pytest.mark.parametrize("version", ["1.31", "1.22"])
def test_the_only_route_of_a_listener_is_text_in_its_log(version):
    text = rendered(version, topology=LOGS, **ALL)
    assert '"only_route":"yes","route":"r","pool":"p",' in text
    assert "$logged_route" not in text


@pytest.mark.parametrize(
    ("guarantees", "route"),
    [
        ("engine", {}),  # other paths get 404
        ("engine", ALL | {"access": {"allow": ["10.0.0.0/8"]}}),
        ("engine", ALL | {"retries": {"max": 1, "on": ["reset"]}}),
        ("contract", ALL),
        ({"paths": "engine", "framing": "engine", "answers": "engine"}, ALL),
    ],
)
def test_a_route_that_may_not_forward_is_noted_in_its_location(guarantees, route):
    text = rendered(guarantees=guarantees, topology=LOGS, **route)
    assert "set $logged_route r;" in text
    assert "only_route" not in text


def test_the_log_matches_the_query_where_args_may_change():
    by_args = 'map $args $logged_path { "" $request_uri;'
    assert by_args in rendered(topology=LOGS)
    assert by_args not in rendered(listener={"limits": {"headers": "4KiB"}}, topology=LOGS)
    own = {"engines": {"nginx": {"server": "error_page 404 /missing.html;"}}}
    assert by_args not in rendered(topology=LOGS | own, **ALL)
    assert "set $logged_route r;" in rendered(topology=LOGS | own, **ALL)
