"""The oracle says what the contract says, clause by clause."""

import pytest
from msgspec.structs import replace

from lbgen.plan import model as m
from lbgen.plan.conditions import Exact, Operator, Present, Regex
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, RegexPath
from lbgen.plan.policy import Access
from lbgen.plan.request import Request
from lbgen.plan.simulate import Outcome, Upstream, simulate, simulate_l4
from tests.support.plans import TIMES, by_match, equals, exact, forward, like, match, pool, prefix, present

ROOT = PrefixPath("/")
TO_POOL = forward("p")
PRESENT = Present()
text, regex = Exact, Regex


def plan_of(
    *rules: tuple[str, m.HostPattern | None, m.Match | Path],
    action: m.Forward | m.Redirect | m.Respond = TO_POOL,
    route: m.Route | None = None,
    **listener: object,
) -> m.Plan:
    """A plan with a route per (name, host, match), all with the same action."""
    common = route or m.Route("", 0, action, "")
    ways = [
        (match if isinstance(match, m.Match) else m.Match(match), replace(common, name=name, index=i), host)
        for i, (name, host, match) in enumerate(rules)
    ]
    return by_match(ways, [pool(each.pool) for each in getattr(common.action, "targets", ())], **listener)


CATCH_ALL = plan_of(("all", None, ROOT))


def ask(plan: m.Plan, target: str = "/", *headers: tuple[str, str], **more: object) -> Outcome:
    given = headers if any(n.lower() == "host" for n, _ in headers) else (("Host", "a.test"), *headers)
    return simulate(plan, Request(target=target, headers=given, **more))  # type: ignore[arg-type]


def only(outcome: Outcome) -> Upstream:
    (upstream,) = outcome.upstreams
    return upstream


def sent(outcome: Outcome, name: str) -> str | None:
    """The combined value of a header at the endpoint; None when absent, "?" when made by the proxy."""
    values = [v for n, v in only(outcome).headers if n == name]
    return ", ".join("?" if v is None else v for v in values) if values else None


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a/",
        "/a?x=//../%zz",
        "/a%20b",
        "/%C3%A9",
        "/%c3%a9",
        "/a:b@c",
        "/%3A",
        "/a;v=1",
        "/...",
        "/.a",
        "/a.",
        "/a?",
    ],
)
def test_targets_that_pass_unchanged(target: str) -> None:
    assert only(ask(CATCH_ALL, target)).target == target


@pytest.mark.parametrize(
    "target",
    [
        *(
            "",
            "*",
            "a",
            "/a b",
            "/a\x00",
            "/a\\b",
            "/\x7f",
            "/\xe9",
            "/a#",
            "/?#",
        ),
        *("/%", "/%4", "/%zz", "/%2F", "/%2f", "/%5c", "/%00", "/%1f", "/%7F", "/%41", "/%7e", "/%2E", "/%2D"),
        *("/.", "/..", "/a/./b", "/a/../b", "/a/..", "//", "//a", "/a//", "/a//b", "/a? ", "/?\xe9", "//a.test/"),
        *("ftp://a.test/", "http://b.test/", "http://a.test:80/", "http://a.test#", "http:///"),
    ],
)
def test_targets_that_are_refused(target: str) -> None:
    outcome = ask(CATCH_ALL, target)
    assert (outcome.status, outcome.well_formed) == (400, False)


@pytest.mark.parametrize(
    ("target", "arrives"), [("http://a.test/x?y", "/x?y"), ("HTTPS://A.test", "/"), ("http://a.test?q", "/?q")]
)
def test_absolute_form_arrives_in_origin_form(target: str, arrives: str) -> None:
    assert only(ask(CATCH_ALL, target)).target == arrives


@pytest.mark.parametrize(
    ("method", "status"),
    [
        *(("GET", None), ("FOO", None), ("M-SEARCH", None), ("VERSION_CONTROL", None)),
        *(("get", 400), ("G3T", 400), ("", 400), ("TRACE", 405), ("CONNECT", 405), ("Trace", 400), ("_X", 400)),
    ],
)
def test_methods(method: str, status: int | None) -> None:
    assert ask(CATCH_ALL, method=method).status == status


@pytest.mark.parametrize(
    ("headers", "version", "status"),
    [
        ((), "1.1", 400),
        ((), "1.0", 400),
        ((("Host", ""),), "1.1", 400),
        ((("Host", ""),), "1.0", 400),
        ((("Host", "a"), ("host", "a")), "1.1", 400),
        ((("Host", "a b"),), "1.1", 400),
        ((("Host", "a/b"),), "1.1", 400),
        ((("Host", "a@b"),), "1.1", 400),
        ((("Host", "a,b"),), "1.1", 400),
        ((("Host", "a.test:80:80"),), "1.1", 400),
        ((("Host", "a.test:99x"),), "2", 400),
        ((("Host", "a.test:65536"),), "1.1", 400),
        ((("Host", "a.test.."),), "1.1", 400),
        ((("Host", ".a.test"),), "2", 400),
        ((("Host", "a..test"),), "1.1", 400),
        ((("Host", ":80"),), "1.1", 400),
        ((("Host", "[::1"),), "1.1", 400),
        ((("Host", "[::1]x"),), "1.0", 400),
        ((("Host", "::1"),), "1.1", 400),
        ((("Host", "[::1]:80"),), "1.1", None),
        ((("Host", "A_b.test.:8"),), "1.1", None),
        ((("Host", "a"),), "0.9", 400),
        ((("Host", "a"), ("X Y", "z")), "1.1", 400),
        ((("Host", "a"), ("x", "a\x00")), "1.1", 400),
        ((("Host", "a"), ("x", "a\tb\xe9")), "1.1", None),
        ((("Host", "a"), ("Content-Length", "1, 1")), "1.1", 400),
        ((("Host", "a"), ("Content-Length", "1"), ("Content-Length", "2")), "1.1", 400),
        ((("Host", "a"), ("Content-Length", "1"), ("Transfer-Encoding", "chunked")), "1.1", 400),
        ((("Host", "a"), ("Transfer-Encoding", "gzip, chunked")), "1.1", 400),
        ((("Host", "a"), ("Transfer-Encoding", "chunked")), "1.0", 400),
        ((("Host", "a"), ("Transfer-Encoding", "Chunked")), "1.1", None),
    ],
)
def test_request_heads(headers: tuple[tuple[str, str], ...], version: str, status: int | None) -> None:
    assert simulate(CATCH_ALL, Request(headers=headers, version=version)).status == status


def test_the_method_is_judged_before_the_path_and_the_path_before_the_route() -> None:
    assert ask(CATCH_ALL, "/a//b", method="TRACE").status == 405
    assert ask(plan_of(("x", None, exact("/x"))), "/a//b").status == 400


HOSTED = plan_of(
    ("any", None, ROOT),
    ("exact", m.HostPattern("a.test"), ROOT),
    ("wild", m.HostPattern("a.test", wildcard=True), ROOT),
    ("deep", m.HostPattern("b.a.test", wildcard=True), ROOT),
    ("six", m.HostPattern("[::1]"), ROOT),
)


@pytest.mark.parametrize(
    ("host", "route"),
    [
        *(("a.test", "exact"), ("A.Test.:81", "exact"), ("a.test:", "exact"), ("xa.test", "any")),
        *(("b.a.test", "wild"), ("c.b.a.test", "deep"), ("e.d.c.b.a.test", "deep"), ("[::1]:8080", "six")),
    ],
)
def test_hosts(host: str, route: str) -> None:
    assert ask(HOSTED, "/", ("Host", host)).route == route


def test_no_rule_is_404() -> None:
    outcome = ask(plan_of(("x", None, exact("/x"))), "/y")
    assert (outcome.status, outcome.route, outcome.body) == (404, None, "Not Found\n")
    assert [(x.rule, x.reason) for x in outcome.losers] == [("x.0", "path /y is not exact /x")]
    assert ask(plan_of(), method="HEAD").body == ""


@pytest.mark.parametrize(
    ("kind", "value", "path", "holds"),
    [
        (PrefixPath, "/api", "/api", True),
        (PrefixPath, "/api", "/api/", True),
        (PrefixPath, "/api", "/api/x?y", True),
        (PrefixPath, "/api", "/apix", False),
        (PrefixPath, "/api", "/API", False),
        (PrefixPath, "/caf%C3%A9", "/caf%c3%A9/x", True),
        (ExactPath, "/a/", "/a", False),
        (ExactPath, "/a", "/a/", False),
        (ExactPath, "/a", "/a?b", True),
        (ExactPath, "/caf%C3%A9", "/caf%C3%a9", True),
        (ExactPath, "/a:b", "/a%3Ab", False),
        (RegexPath, "/a.c", "/abc", True),
        (RegexPath, "/a", "/ab", False),
        (RegexPath, "/a|/b", "/bc", False),
        (RegexPath, "/caf%C3%A9", "/caf%c3%a9", False),
        (RegexPath, "/a", "/a?b", True),
    ],
)
def test_paths(kind: type[Path], value: str, path: str, holds: bool) -> None:
    assert (ask(plan_of(("x", None, kind(value))), path).status is None) is holds


@pytest.mark.parametrize(
    ("wanted", "lines", "holds"),
    [
        (text("1"), ["1"], True),
        (text("1"), [" 1 "], True),
        (text("1"), ["2", "1"], True),
        (text("1"), ["2,1"], True),
        (text("2, 1"), ["2", "1"], True),
        (text("a,b"), ["a,b"], True),
        (text("1"), ["11"], False),
        (text("A"), ["a"], False),
        (text("1"), [], False),
        (text("é"), ["é".encode().decode("latin-1")], True),
        (regex("[0-9]+"), ["a, 12"], True),
        (regex("[0-9]+"), ["a12"], False),
        (regex(".*"), [""], True),
        (regex(".*"), [], False),
        (PRESENT, [""], False),
        (PRESENT, ["", "x"], True),
        (PRESENT, ["", ""], False),
    ],
)
def test_headers(wanted: Operator, lines: list[str], holds: bool) -> None:
    plan = plan_of(("x", None, match(ROOT, headers=(("x-a", wanted),))))
    assert (ask(plan, "/", *(("X-A", v) for v in lines)).status is None) is holds


@pytest.mark.parametrize(
    ("wanted", "query", "holds"),
    [
        (text("a b"), "q=a%20b", True),
        (text("a b"), "q=a+b", False),
        (text("a+b"), "q=a+b", True),
        (text("é"), "q=%c3%A9", True),
        (text("%zz"), "q=%zz", True),
        (text("1"), "x&q=1", True),
        (text("1"), "q=2&q=1", False),
        (text("1"), "Q=1", False),
        (text("1"), "%71=1", False),
        (text("1=2"), "q=1=2", True),
        (text("1;q=2"), "q=1;q=2", True),
        (text(""), "q", True),
        (text(""), "q=", True),
        (text(""), "x", False),
        (PRESENT, "q", False),
        (PRESENT, "q=0", True),
        (regex("a|b"), "q=ab", False),
        (regex("a|b"), "q=%62", True),
    ],
)
def test_query(wanted: Operator, query: str, holds: bool) -> None:
    plan = plan_of(("x", None, match(ROOT, query=(("q", wanted),))))
    assert (ask(plan, f"/?{query}").status is None) is holds


@pytest.mark.parametrize(
    ("wanted", "lines", "holds"),
    [
        (text("1"), ["c=1"], True),
        (text("1"), ["b=2;c=1"], True),
        (text("1"), ["b=2 ; c=1 "], True),
        (text("1"), ["b=2", "c=1"], True),
        (text("1"), ["c=2", "c=1"], False),
        (text("1"), ['c="1"'], True),
        (text('"'), ['c="'], True),
        (text("1"), ["C=1"], False),
        (text("1"), ["c; c=1"], True),
        (text("1=2"), ["c=1=2"], True),
        (PRESENT, ['c=""'], False),
        (PRESENT, ["c=x"], True),
    ],
)
def test_cookies(wanted: Operator, lines: list[str], holds: bool) -> None:
    plan = plan_of(("x", None, match(ROOT, cookies=(("c", wanted),))))
    assert (ask(plan, "/", *(("Cookie", v) for v in lines)).status is None) is holds


def test_hop_by_hop_headers_end_here() -> None:
    outcome = ask(
        CATCH_ALL,
        "/",
        ("Connection", "close, TE, Upgrade"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "h2c"),
        ("Proxy-Connection", "close"),
        ("Proxy-Authorization", "secret"),
        ("X_under", "1"),
        ("x.dot", "2"),
    )
    names = [n for n, _ in only(outcome).headers]
    ours = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id"]
    assert names == ["host", "proxy-authorization", "x.dot", *ours]


def test_fields_with_an_underscore_reach_neither_rules_nor_endpoints_unless_let_in() -> None:
    plan = plan_of(("asked", None, match(ROOT, headers=(present("x-a"),))), ("all", None, ROOT))
    outcome = ask(plan, "/", ("X_A", "1"))
    assert outcome.route == "all"
    assert sent(outcome, "x_a") is None
    listener = replace(plan.listeners[0], underscores=True)
    outcome = ask(replace(plan, listeners=(listener,)), "/", ("X_A", "1"))
    assert (outcome.route, sent(outcome, "x_a")) == ("all", "1")


def test_a_websocket_upgrade_passes() -> None:
    asked = (("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket"), ("Sec-WebSocket-Key", "k"))
    assert sent(ask(CATCH_ALL, "/", *asked), "upgrade") == "WebSocket"
    assert sent(ask(CATCH_ALL, "/", *asked, method="POST"), "upgrade") is None
    assert sent(ask(CATCH_ALL, "/", *asked[1:]), "upgrade") is None


SPOOFED = (
    ("X-Forwarded-For", "1.1.1.1"),
    ("x-forwarded-for", "2.2.2.2"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "evil"),
    ("X-Forwarded-Port", ""),
    ("X-Request-Id", "id"),
)
FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id")


@pytest.mark.parametrize(
    ("on", "trust", "values"),
    [
        (True, False, ["127.0.0.1", "http", "A.test:1", "8080", "?"]),
        (True, True, ["1.1.1.1, 2.2.2.2, 127.0.0.1", "https", "evil", "8080", "id"]),
        (False, False, [None] * 5),
        (False, True, ["1.1.1.1, 2.2.2.2", "https", "evil", "", "id"]),
    ],
)
def test_forwarded_headers(on: bool, trust: bool, values: list[str | None]) -> None:
    plan = plan_of(
        ("all", None, ROOT),
        forwarded_headers=on,
        request_id=on,
        trusted_proxies=("10.0.0.0/8", "127.0.0.0/30") if trust else ("10.0.0.0/8",),
    )
    outcome = ask(plan, "/", ("Host", "A.test:1"), *SPOOFED)
    assert [sent(outcome, name) for name in FORWARDED] == values
    assert (only(outcome).host, sent(outcome, "host")) == ("A.test:1", "A.test:1")


CLAIMED = (
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Real-IP", "192.0.2.2"),
    ("CF-Connecting-IP", "192.0.2.3"),
    ("Forwarded", 'for="[2001:db8::4]"'),
)


@pytest.mark.parametrize(
    ("stated", "trust", "client"),
    [
        (None, True, "192.0.2.1"),
        ("x-real-ip", True, "192.0.2.2"),
        ("cf-connecting-ip", True, "192.0.2.3"),
        ("forwarded", True, "2001:db8::4"),
        ("true-client-ip", True, "127.0.0.1"),
        ("cf-connecting-ip", False, "127.0.0.1"),
    ],
)
def test_fields_that_say_who_asks(stated: str | None, trust: bool, client: str) -> None:
    plan = plan_of(
        ("all", None, ROOT),
        real_ip=True,
        forwarded=True,
        client_header=stated,
        trusted_proxies=("127.0.0.0/30",) if trust else ("10.0.0.0/8",),
    )
    outcome = ask(plan, "/", ("Host", "A.test:1"), *CLAIMED)
    element = f'for="[{client}]"' if ":" in client else f"for={client}"
    if stated in (None, "forwarded"):
        element = 'for="[2001:db8::4]", for=127.0.0.1'
    assert sent(outcome, "x-real-ip") == client
    assert sent(outcome, "x-forwarded-for") == (client if stated else f"{client}, 127.0.0.1")
    assert sent(outcome, "forwarded") == f'{element};host="A.test:1";proto=http'
    assert (sent(outcome, "cf-connecting-ip") is None) == (stated == "cf-connecting-ip" and not trust)


def test_fields_that_nobody_asked_for_pass() -> None:
    outcome = ask(CATCH_ALL, "/", *CLAIMED[1:])
    assert [sent(outcome, name) for name in ("x-real-ip", "cf-connecting-ip")] == ["192.0.2.2", "192.0.2.3"]


def test_connection_names_no_other_field() -> None:
    for names in ("x-forwarded-for", "close, Host", "X-Private", ":path"):
        outcome = ask(CATCH_ALL, "/", ("Connection", names), ("X-Private", "1"))
        assert (outcome.status, outcome.well_formed) == (400, False)
    for names in ("close", "Keep-Alive", "te, trailers", "upgrade, http2-settings", "proxy-connection", ""):
        assert ask(CATCH_ALL, "/", ("Connection", names)).well_formed


def test_edits_come_after_the_forwarded_headers_and_the_target_after_the_route() -> None:
    target = m.Target("p", 9, m.HeaderEdits(set=(("x-a", "target"),)), "")
    idle = m.Target("q", 0, m.HeaderEdits(), "")
    edits = m.HeaderEdits(
        set=(("x-a", "route"), ("x-forwarded-proto", "$é")), add=(("x-b", "more"),), remove=("x-c", "x-request-id")
    )
    route = m.Route("r", 0, m.Forward((target, idle), TIMES), "", edits, m.HeaderEdits(remove=("server",)))
    plan = plan_of(("r", None, ROOT), route=route)
    outcome = ask(plan, "/", ("X-A", "1"), ("x-a", "2"), ("X-B", "first"), ("X-C", "gone"))
    assert sent(outcome, "x-a") == "target"
    assert sent(outcome, "x-b") == "first, more"
    assert sent(outcome, "x-c") is None
    assert sent(outcome, "x-request-id") is None
    assert sent(outcome, "x-forwarded-proto") == "$é".encode().decode("latin-1")
    assert (only(outcome).pool, only(outcome).weight) == ("p", 9)
    assert outcome.response_edits.remove == ("server",)


@pytest.mark.parametrize(
    ("match", "rewrite", "target", "arrives"),
    [
        (prefix("/api"), m.Rewrite(prefix="/v1"), "/api", "/v1"),
        (prefix("/api"), m.Rewrite(prefix="/v1"), "/api/", "/v1/"),
        (prefix("/api"), m.Rewrite(prefix="/v1"), "/api/x?y=/api", "/v1/x?y=/api"),
        (prefix("/api"), m.Rewrite(prefix="/"), "/api/x", "/x"),
        (prefix("/api"), m.Rewrite(prefix="/"), "/api", "/"),
        (prefix("/api"), m.Rewrite(prefix="/"), "/api?q", "/?q"),
        (prefix("/"), m.Rewrite(prefix="/v1"), "/x", "/v1/x"),
        (prefix("/caf%C3%A9"), m.Rewrite(prefix="/c"), "/caf%c3%a9/%c3", "/c/%c3"),
        (exact("/a/b"), m.Rewrite(prefix="/v1"), "/a/b?c", "/v1?c"),
        (RegexPath("/.*"), m.Rewrite(path="/all"), "/a/b?c", "/all?c"),
        (prefix("/"), m.Rewrite(host="in.test"), "/a?", "/a?"),
    ],
)
def test_rewrites(match: Path, rewrite: m.Rewrite, target: str, arrives: str) -> None:
    plan = plan_of(("r", None, match), action=replace(TO_POOL, rewrite=rewrite))
    outcome = ask(plan, target)
    assert only(outcome).target == arrives
    assert only(outcome).host == (rewrite.host or "a.test") == sent(outcome, "host")
    assert sent(outcome, "x-forwarded-host") == "a.test"


@pytest.mark.parametrize(
    ("redirect", "location"),
    [
        (m.Redirect(302), "http://a.test:8080/a/b?c=1"),
        (m.Redirect(302, scheme="https"), "https://a.test/a/b?c=1"),
        (m.Redirect(302, scheme="http"), "http://a.test/a/b?c=1"),
        (m.Redirect(302, scheme="https", port=8443), "https://a.test:8443/a/b?c=1"),
        (m.Redirect(302, port=80), "http://a.test/a/b?c=1"),
        (m.Redirect(302, host="b.test"), "http://b.test:8080/a/b?c=1"),
        (m.Redirect(302, path="/new"), "http://a.test:8080/new?c=1"),
        (m.Redirect(302, prefix="/x"), "http://a.test:8080/x/b?c=1"),
        (m.Redirect(302, prefix="/"), "http://a.test:8080/b?c=1"),
    ],
)
def test_redirects(redirect: m.Redirect, location: str) -> None:
    plan = plan_of(("r", None, prefix("/a")), action=redirect)
    outcome = ask(plan, "/a/b?c=1", ("Host", "A.Test.:99"))
    assert (outcome.status, outcome.location, outcome.body) == (302, location, None)


def test_respond() -> None:
    text = "é $x % {{ y }}"
    plan = plan_of(("r", None, ROOT), action=m.Respond(200, text, (("content-type", "text/x"), ("x-a", "é"))))
    outcome = ask(plan)
    assert (outcome.status, outcome.body) == (200, text.encode().decode("latin-1"))
    assert outcome.headers == (("content-type", "text/x"), ("x-a", "Ã©"))
    assert ask(plan, method="HEAD").body == ""
    assert ask(plan_of(("r", None, ROOT), action=m.Respond(204, "", ()))).body == ""


def test_losers_say_why() -> None:
    plan = plan_of(
        ("method", None, match(ROOT, methods=("POST", "PUT"))),
        ("header", None, match(ROOT, headers=(equals("x-a", "1"),))),
        ("query", None, match(ROOT, query=(like("q", "a"),))),
        ("cookie", None, match(ROOT, cookies=(present("c"),))),
        ("host", m.HostPattern("b.test"), ROOT),
        ("path", None, RegexPath("/b")),
        ("all", None, ROOT),
    )
    outcome = ask(plan, "/a?q=b", ("Cookie", "c="))
    assert outcome.route == "all"
    assert {x.rule.removesuffix(".0"): x.reason for x in outcome.losers} == {
        "method": "method GET is not POST or PUT",
        "header": "header x-a is missing",
        "query": "query parameter q is 'b', not regex 'a'",
        "cookie": "cookie c is empty",
        "host": "host a.test is not b.test",
        "path": "path /a is not regex /b",
    }
    later = ask(plan_of(("root", None, ROOT), ("b", None, prefix("/b"))), "/b")
    assert [x.reason for x in later.losers] == ["holds too, but b.0 is tried first"]


def test_listeners_are_named_or_the_first_l7_one() -> None:
    web = CATCH_ALL.listeners[0]
    plan = replace(CATCH_ALL, listeners=(replace(web, name="db", mode=m.Mode.L4), web))
    assert simulate(plan, Request(headers=(("Host", "a"),))).route == "all"
    with pytest.raises(KeyError):
        simulate(plan, Request(listener="db"))
    with pytest.raises(KeyError):
        simulate(plan, Request(listener="nope"))


def test_l4() -> None:
    rules = (
        m.L4Rule("a", 0, "a", m.HostPattern("a.test"), (), ""),
        m.L4Rule("w", 1, "w", m.HostPattern("a.test", wildcard=True), (), ""),
        m.L4Rule("s", 2, "s", None, ("10.0.0.0/8",), ""),
    )
    listener = m.Listener("db", "127.0.0.1", 5432, m.Mode.L4, m.Protocol.TCP, "", l4_rules=rules)
    plan = m.Plan("t", (listener,), (), tuple(m.Route(n, 0, TO_POOL, "") for n in "aws"))
    assert simulate_l4(plan, "db", "A.test.").route == "a"
    assert simulate_l4(plan, "db", "x.a.test").route == "w"
    assert simulate_l4(plan, "db", source="10.1.2.3").pools == (("p", 1),)
    closed = simulate_l4(plan, "db")
    assert (closed.route, closed.pools) == (None, ())
    assert [x.reason for x in closed.losers] == [
        "server name (none) is not a.test",
        "server name (none) is not *.a.test",
        "source 127.0.0.1 is not in 10.0.0.0/8",
    ]


def test_an_access_list_of_an_l4_route_closes_the_connection() -> None:
    rules = (m.L4Rule("s", 0, "s", None, ("10.0.0.0/8",), ""), m.L4Rule("r", 1, "r", None, (), ""))
    denied = Access(deny=("10.9.0.0/16",))
    listener = m.Listener("db", "127.0.0.1", 5432, m.Mode.L4, m.Protocol.TCP, "", l4_rules=rules)
    plan = m.Plan("t", (listener,), (), (m.Route("s", 0, TO_POOL, "", access=denied), m.Route("r", 1, TO_POOL, "")))
    assert simulate_l4(plan, "db", source="10.1.2.3").pools == (("p", 1),)
    kept_out = simulate_l4(plan, "db", source="10.9.2.3")
    assert (kept_out.route, kept_out.pools) == ("s", ())  # no later rule takes it
    guarded = replace(plan, listeners=(replace(listener, access=Access(allow=())),))
    assert (simulate_l4(guarded, "db").route, simulate_l4(guarded, "db").pools) == (None, ())
