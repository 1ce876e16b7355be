"""nginx: what is rendered for which plan, and what is said about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.engines.api import Level
from lbgen.engines.nginx import ENGINE
from lbgen.plan.model import (
    HeaderEdits,
    Match,
    Plan,
    Pool,
    Respond,
    Rewrite,
    Timeouts,
)
from tests.support.nginx import with_includes
from tests.support.plans import by_match, endpoint, equals, exact, forward, like, on_tcp, pool, prefix, present, route

ROOT = prefix("/")


def plan(*ways: tuple[Match, object], pools: tuple[Pool, ...] = (), **more) -> Plan:
    """A plan of one listener; each way is (match, action) or (match, action, edits of the answer)."""
    rules = [
        (match, route(f"r{n}", action, n, response_headers=edits[0] if edits else HeaderEdits()))
        for n, (match, action, *edits) in enumerate(ways)
    ]
    return replace(by_match(rules, pools or (pool("p"), pool("q"))), **more)


def rendered(made: Plan, version: str = "1.31") -> str:
    return with_includes({file.name: file.text for file in ENGINE.render(made, version)})


def block(text: str, head: str) -> str:
    """The lines of a block from its head to its closing brace."""
    start = text.index(head)
    if "\n" not in (rest := text[start : text.index("}\n", start)]):
        return rest
    pad = " " * (start - text.rindex("\n", 0, start) - 1)
    return text[start : text.index(f"\n{pad}}}", start)]


def test_old_version_says_what_it_cannot():
    assert ENGINE.verdict("pool.connections.queue", "1.22").level is Level.REFUSED
    assert ENGINE.verdict("match.headers", "1.22").level is Level.HABIT
    assert ENGINE.verdict("match.headers", "1.31").level is Level.EMULATED


def test_same_plan_same_bytes_and_an_origin_for_each_line():
    made = plan((prefix("/a"), forward("p")), (ROOT, forward("q")))
    first, second = ENGINE.render(made, "1.31"), ENGINE.render(made, "1.31")
    assert first == second
    lines = first[0].text.splitlines()
    assert len(lines) == len(first[0].origins)
    at = {line.strip(): origin for line, origin in zip(lines, first[0].origins, strict=True)}
    assert at["location ^~ /a/ { proxy_pass http://p; }"] == "routes[0].match[0]"
    assert next(at[line] for line in at if line.startswith("upstream q {")) == "pools.q"
    assert next(at[line] for line in at if line.endswith(" default_server;")) == "listeners.web"


def test_rules_that_differ_in_more_are_named_locations():
    edits = HeaderEdits(set=(("x-a", "1"),))
    text = rendered(plan((prefix("/a", methods=("GET",)), forward("p"), edits), (prefix("/a"), forward("q"))))
    assert "error_page 418 = $route_r0;" in block(text, "location ^~ /a/ {")
    chosen = block(text, "map $request_method $route_r0 {")
    assert "GET @r0;" in chosen
    assert "default @r1;" in chosen
    assert "add_header X-A 1 always;" in block(text, "location @r0 {")


def test_escaped_and_raw_reserved_characters_are_told_apart_by_the_raw_path():
    text = rendered(plan((exact("/a:b"), forward("p")), (exact("/a%3Ab"), forward("q")), (ROOT, forward("q"))))
    assert text.count('location = "/a:b" {') == 1
    assert '"~^/a:b[?\\n]" @r0;' in text
    assert '"~^/a%3[Aa]b[?\\n]" @r1;' in text


def test_escapes_that_are_no_utf8_are_tested_on_the_raw_path():
    text = rendered(plan((exact("/caf%E9"), forward("p")), (ROOT, forward("q"))))
    assert '"~^/caf%[Ee]9[?\\n]" @r0;' in text
    assert text.isascii()


def test_an_exact_path_with_a_slash_is_not_redirected_to():
    text = rendered(plan((exact("/a/"), forward("p")), (ROOT, forward("q"))))
    assert "proxy_pass" not in block(text, "location = /a/ {")


@pytest.mark.parametrize(
    ("match", "line"),
    [
        (ROOT, '"~^(?<tail>/.*)$" "/v1$tail";'),
        (exact("/a"), '"~^/[^?]*(?<tail>\\?.*)$" "/v1$tail";'),
    ],
)
def test_rewrites_work_on_the_raw_target(match, line):
    text = rendered(plan((match, forward("p", rewrite=Rewrite(prefix="/v1")))))
    assert line in block(text, "map $request_uri $target_r0 {")
    assert "proxy_pass http://p$target_r0;" in text


def test_a_path_and_a_prefix_that_are_replaced_by_the_same_have_values_of_their_own():
    ways = ((exact("/a"), Rewrite(path="/x")), (ROOT, Rewrite(prefix="/x")))
    text = rendered(plan(*((match, forward("p", rewrite=rewrite)) for match, rewrite in ways)))
    assert '"/x$tail"' in block(text, "map $request_uri $target_r0 {")
    assert '"~^(?<tail>/.*)$"' in block(text, "map $request_uri $target_r1 {")


def test_answers_whose_return_would_take_an_address():
    text = rendered(plan((ROOT, Respond(301, "gone", (("content-type", "text/plain"), ("location", "/x"))))))
    assert "error_page 418 =301 @r0:answer;" in text
    assert "return 200 gone;" in block(text, "location @r0:answer {")


def test_an_empty_body_is_no_page_of_nginx():
    text = rendered(plan((ROOT, Respond(404, "", (("content-type", "text/plain"),)))))
    assert "return 404 $text_1;" in text


def test_long_texts_are_put_together_of_constants():
    body = "$" * 5_000
    text = rendered(plan((ROOT, Respond(200, body, (("content-type", "text/plain"),)))))
    assert max(map(len, text.splitlines())) < 4_000
    assert text.count("${dollar}") == 5_000


@pytest.mark.parametrize(
    ("response", "idle", "read", "level", "field"),
    [
        (5_000, 60_000, "60s", Level.HABIT, "response"),
        (5_000, 0, "365d", Level.HABIT, "response"),
        (60_000, 5_000, "60s", Level.APPROXIMATE, "idle"),
        (0, 5_000, "365d", Level.APPROXIMATE, "idle"),
    ],
)
def test_the_longer_of_two_times_holds_and_only_a_shorter_idle_stops(response, idle, read, level, field):
    made = plan((ROOT, forward("p", times=Timeouts(1_000, response, idle))))
    assert f"proxy_read_timeout {read};" in rendered(made)
    (objection,) = ENGINE.objections(made, "1.31")
    assert objection.verdict.level is level
    assert objection.field.endswith(f".timeouts.{field}")
    assert "the longer one" in objection.verdict.note


def test_names_need_resolvers():
    made = plan((ROOT, forward("p")), pools=(pool("p", endpoint("web-2")),))
    (objection,) = ENGINE.objections(made, "1.31")
    assert objection.verdict.level is Level.REFUSED
    assert "resolvers: [" in objection.verdict.note
    known = replace(made, resolvers=("10.0.0.53", "fd00::53"))
    assert not list(ENGINE.objections(known, "1.31"))
    text = rendered(known)
    assert "resolver 10.0.0.53 [fd00::53] valid=5s;" in text
    assert "server web-2:80 max_fails=0 resolve;" in text
    assert "zone p 66k;" in text


def test_headers_that_nginx_keeps_to_itself_are_refused():
    made = plan((ROOT, forward("p"), HeaderEdits(set=(("server", "x"),))))
    (objection,) = ENGINE.objections(made, "1.31")
    assert objection.verdict.level is Level.REFUSED
    assert "server" in objection.verdict.note


@pytest.mark.parametrize(
    "match",
    [
        prefix("/", headers=(present("x.y"),)),
        prefix("/", query=(like("q", r"a\b"),)),
        prefix("/", query=(equals("q", "x" * 1_000),)),
        prefix("/", headers=(like("x", "a*"),)),
    ],
)
def test_matches_that_nginx_cannot_judge(match):
    assert list(ENGINE.objections(plan((match, forward("p"))), "1.31"))


def test_tcp():
    text = rendered(on_tcp(forward("p", "q"), pool("p"), pool("q")))
    assert "http {" not in text
    assert "proxy_half_close on;" in text
    assert "proxy_pass $split_db;" in text
    assert "keepalive" not in text


def test_versions_differ_where_they_must():
    made = plan((ROOT, forward("p")))
    assert "keepalive_min_timeout" in rendered(made)
    assert "keepalive_min_timeout" not in rendered(made, "1.22")


def test_many_routes_name_their_hash_sizes():
    few = plan(*((prefix(f"/s{n}"), forward("p")) for n in range(3)))
    assert "variables_hash_max_size" not in rendered(few)
    edits = HeaderEdits(set=(("x", "1"),))
    many = plan(*((prefix(f"/s{n}", methods=("GET",)), forward("p"), edits) for n in range(300)))
    assert "variables_hash_max_size 2048;" in rendered(many)


def test_sizes_of_tables_come_before_the_first_map():
    """nginx takes a map before them for a size of its own: "map_hash_max_size" directive is duplicate."""
    data = {
        "version": 1,
        "name": "many",
        "listeners": {"web": {"port": 8080}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": f"r{n}", "hosts": [f"host{n}.example.com"], "forward": "app"} for n in range(600)],
    }
    text = lbgen.render(lbgen.load(data), engine="nginx", accept=("all",))["nginx.conf"]
    lines = [line.split()[0] for line in text.splitlines() if line.split()]
    assert lines.index("map_hash_max_size") < lines.index("map")
