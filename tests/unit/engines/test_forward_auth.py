"""A service that is asked about requests: no engine goes on without its yes, and no client says who it is."""

from __future__ import annotations

import re

import pytest

import lbgen
from tests.support.plans import topology

AUTH = {"forward": {"pool": "p", "path": "/verify?a=$b", "response_headers": ["x-user"], "redirect_to": "/login"}}
L7 = ("envoy", "haproxy", "nginx", "traefik")


def text(engine: str, route: dict | None = None) -> str:
    files = lbgen.render(lbgen.plan(lbgen.load(topology({"auth": AUTH} | (route or {})))), engine=engine).files
    return "".join(file.text for file in files)


@pytest.mark.parametrize("engine", L7)
def test_clients_cannot_say_who_they_are(engine: str) -> None:
    assert re.search(r"x-user", text(engine), re.IGNORECASE)


def test_haproxy_refuses_what_its_function_has_not_admitted() -> None:
    lines = [line.strip() for line in text("haproxy").splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("http-request lua.auth_request "))
    assert lines[at + 1].startswith("http-request deny deny_status 503 if ")
    assert "!{ var(txn.admitted) -m found }" in lines[at + 1]


def test_haproxy_asks_every_service_by_one_socket() -> None:
    made = text("haproxy")
    assert len(re.findall(r"^    bind abns@auth:", made, re.MULTILINE)) == 1
    assert "use_backend" in made.partition("frontend lbgen:auth")[2]


def test_nginx_answers_by_itself_behind_the_question() -> None:
    made = text("nginx", {"respond": {"status": 200, "body": "secret"}})
    guarded = made.partition("auth_request ")[2]
    assert "return 200 secret" not in made.partition("auth_request ")[0]
    assert "try_files" in guarded.partition("}")[0]


def test_envoy_lets_no_request_pass_that_it_cannot_ask_about() -> None:
    assert "failure_mode_allow" not in text("envoy")
    assert "status_on_error" in text("envoy")


@pytest.mark.parametrize("engine", L7)
def test_an_address_of_a_login_holds_what_the_request_was(engine: str) -> None:
    auth = {"forward": {"pool": "p", "redirect_to": "https://login.example/?$x%20={header.x-from}&rd={uri}"}}
    made = text(engine, {"auth": auth, "request_headers": {"remove": ["x-from"]}})
    literal = {"envoy": "?$x%%20=%", "haproxy": "?$x%%20=%[", "nginx": "?${dollar}x%20=$", "traefik": "?$x%20="}
    assert f"https://login.example/{literal[engine]}" in made
    assert "{uri}" not in made


def test_listeners_of_one_route_lead_to_addresses_of_their_own() -> None:
    auth = {"forward": {"pool": "p", "redirect_to": "/login?on={listener}"}}
    listeners = {"one": {"port": 8080}, "two": {"port": 8081}}
    plan = lbgen.plan(lbgen.load(topology({"auth": auth}) | {"listeners": listeners}))
    for engine in L7:
        made = "".join(file.text for file in lbgen.render(plan, engine=engine).files)
        own = "str({})" if engine == "haproxy" else "/login?on={}"  # one text for both, by a variable of each
        assert [made.count(own.format(name)) for name in listeners] == [1, 1], engine
