"""The safety judge finds each kind of breach in what arrives, and none in what the rules let through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from lbgen.conformance.prepare import plan_of
from lbgen.conformance.safety import corpus, run
from lbgen.conformance.safety.endpoint import AmbiguousError, Arrival, parse_head, read_body
from lbgen.conformance.safety.judge import judge_arrival

PLAN = plan_of(yaml.safe_load(Path(run.__file__).with_name("topology.yaml").read_text(encoding="utf-8")))
MARK = "mark0123456789"
FORWARDED = (
    "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nX-Forwarded-Port: 8080\r\n"
    "X-Request-Id: 7f\r\n"
)
PLAIN = parse_head(f"GET /public/{MARK} HTTP/1.1\r\nHost: h\r\n{FORWARDED}X-Set: lbgen\r\n\r\n".encode())


def breaches(
    head: str, pool: str = "public", listener: str = "web", body: bytes = b"", whole: bool = True
) -> list[str]:
    """The rules that the judge finds broken by a request of an attack which arrives so."""
    target = corpus.Target(listener, "/public", "h", "/admin", "tenant.example")
    attack = corpus.Attack(target, MARK, "an attack", b"\r\nHost: h", whole=whole)
    arrival = Arrival(pool, head.encode("latin-1"), body=bytearray(body), complete=True)
    try:
        arrival.message = parse_head(arrival.head)
    except AmbiguousError as error:
        arrival.problem = str(error)
    return [each.rule for each in judge_arrival(PLAN, attack, arrival, PLAIN)]


def get(
    target: str, fields: str = "X-Set: lbgen\r\n", host: str = "h", method: str = "GET", forwarded: str = ""
) -> str:
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{forwarded or FORWARDED.replace(' h', f' {host}')}{fields}\r\n"
    )


@pytest.mark.parametrize(
    ("head", "pool"),
    [
        (get(f"/public/{MARK}"), "public"),
        (get(f"/public/{MARK}?a=|{{}}"), "public"),
        (get(f"/public/{MARK}|x"), "public"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nConnection: keep-alive, Upgrade\r\n"), "public"),
        (get(f"/inner/{MARK}", ""), "products"),  # the route rewrites /products
        (get(f"/public/{MARK}", "X-Role: admin\r\n"), "role"),
        (get(f"/public/{MARK}", "X-Role: user\r\nX-Role: admin\r\n"), "role"),  # which line counts is a habit
        (get(f"/other/{MARK}", ""), "rest"),
        (get("*", "", method="OPTIONS"), "rest"),
    ],
)
def test_what_the_rules_let_through(head: str, pool: str) -> None:
    assert breaches(head, pool) == []


@pytest.mark.parametrize(
    ("head", "pool", "rule"),
    [
        (get(f"/admin/{MARK}", ""), "admin", "S1"),  # access denies it
        (get(f"/admin/{MARK}"), "public", "S1"),
        (get(f"/public/../admin/{MARK}"), "public", "S3"),
        (get(f"/public/..%2fadmin/{MARK}"), "public", "S3"),
        (get(f"/inner/..%2fadmin/{MARK}", ""), "products", "S3"),
        (get(f"/admin%00{MARK}", ""), "rest", "S3"),
        (get(f"//admin/{MARK}", ""), "rest", "S3"),
        (get(f"/public/{MARK}", "X-Role: admin\r\nX-Set: lbgen\r\n"), "public", "S1"),  # the rule for it was passed by
        (get(f"/public/{MARK}", ""), "role", "S1"),  # the field that the rule checked is gone
        (get(f"/public/{MARK}", host="tenant.example"), "public", "S1"),
        (get(f"/public/{MARK}", host="u@tenant.example"), "public", "S1"),
        (get(f"/public/{MARK}", method="TRACE"), "public", "S1"),
        (get(f"/public/hidden-{MARK}"), "public", "S1"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX-Set: forged\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX-Gone: a\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX_Set: forged\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nConnection: x-forwarded-for\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX-Forwarded-For: 10.1.2.3\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", forwarded=FORWARDED.replace("7f", "forged")), "public", "S2"),
        (get(f"/public/{MARK}", forwarded=FORWARDED.replace("127.0.0.1", "10.1.2.3")), "public", "S2"),
        (get(f"/public/{MARK}", forwarded="X-Forwarded-For: 127.0.0.1\r\n"), "public", "S2"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX-A: a\rb\r\n"), "public", "S1"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nX-A: a\r\n b\r\n"), "public", "S1"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"), "public", "S1"),
        (get(f"/public/{MARK}", "X-Set: lbgen\r\nContent-Length: 1\r\nContent-Length: 2\r\n"), "public", "S1"),
        (f"GET /public/{MARK} HTTP/1.1\r\nHost: h\r\nHost: tenant.example\r\n\r\n", "public", "S1"),
        (f"GET /public/{MARK} HTTP/1.1\nHost: h\n\r\n\r\n", "public", "S1"),
    ],
)
def test_each_breach_is_found(head: str, pool: str, rule: str) -> None:
    assert rule in breaches(head, pool)


def test_a_trusted_proxy_names_the_client_and_the_peer_follows() -> None:
    at_admin = get(f"/admin/{MARK}", "", forwarded="X-Forwarded-For: 10.1.2.3, 127.0.0.1\r\n")
    assert breaches(at_admin, "admin", "trusted") == []
    assert breaches(at_admin.replace("10.1.2.3", "192.0.2.7"), "admin", "trusted") == ["S1"]
    assert breaches(at_admin.replace(", 127.0.0.1", ""), "admin", "trusted") == ["S2"]


def test_bytes_of_another_client_and_bodies_that_never_came() -> None:
    head = get(f"/public/{MARK}", "X-Set: lbgen\r\nContent-Length: 99\r\n")
    assert breaches(head, body=b"GET /public/markaaaaaaaaaa HTTP/1.1\r\n\r\n") == ["S1"]
    assert breaches(head, whole=False) == ["S1"]


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"3\r\nabcXX0\r\n\r\n", b"3\nabc\n0\n\n\r\n", b"0\r\nX-A : 1\r\n\r\n", b"-1\r\n"]
)
def test_chunks_are_read_strictly(body: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(body)
        reader.feed_eof()
        await read_body(reader, None, bytearray())

    with pytest.raises(AmbiguousError):
        asyncio.run(read())


def test_the_corpus_is_filled_in_for_each_listener() -> None:
    every = list(corpus.attacks(PLAN))
    assert {each.target.listener for each in every} == {"web", "http2", "trusted", "proxied"}
    assert len({each.mark for each in every}) == len(every) > 2000
    assert all(each.mark.encode() in each.data or each.fields for each in every)
    assert not [each.shown for each in every if b"<open>" in each.data or b"<hidden" in each.data]
    opens = {each.target.open for each in every}
    assert opens >= {"/public", "/products"}
