"""No value of a request breaks out of the place where a placeholder puts it: hostile texts in a header, cookie, path
and query, written into header fields, bodies, error pages and addresses on every engine.

`LBGEN_HOSTILE=1000` sets the number of texts for each place (default 200).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from lbgen.conformance.case import CaseFile, StandInSpec
from lbgen.conformance.http1_client import Answer, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import prepare
from lbgen.conformance.wait_ready import wait_ready
from lbgen.plan.request import Request, to_wire
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour
from tests.differential.test_free_text import L7, NASTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = pytest.mark.engines
TEXTS = int(os.environ.get("LBGEN_HOSTILE", "200"))
SEED = 7
# What begins a header, a directive, a template or a host somewhere.
PIECES = (
    *NASTY, "//evil.example", "/\\evil.example", "@evil.example", ".evil.example", "https://evil.example/", "?#",
    "%0d%0aSet-Cookie:%20a=b", "%0D%0A%0D%0A<html>", "%E5%98%8A%E5%98%8D", "%00", "\x80", "\xff\xfe", "\u2028",
    "<img src=x onerror=alert(1)>", "{client_ip}", "{{client_ip}}", "{header.x-from}", "{1}", "%[env(HOME)]",
    "%REQ(COOKIE)%", "%DYNAMIC_METADATA(lbgen:host)%", "${request_id}", "$remote_addr", "$found", "%si:%sp", "%ci",
    "\\1", "\\0", "$1$2", "lf-string", "hdr x y", "if TRUE", "add_header a b;", "\"', \"x\": \"", "'\"'\"'", "\t",
)  # fmt: skip
SOURCES = ("header", "cookie", "path", "query")
PLACES = ("in", "out", "body", "to", "page", "login")
STATUSES = {"to": (302,), "page": (502, 503), "login": (302,)}  # of a plain value; 200 in other places
HOST = "shop.example"


def topology() -> dict[str, Any]:
    """Each source in each place: a route for each."""
    routes: list[dict[str, Any]] = []
    for source, value in zip(SOURCES, ("{header.x-from}", "{cookie.from}", "{1}", "{query}"), strict=True):

        def route(place: str, source: str = source, **rest: object) -> None:
            regex = f"/{place}-{source}/(.*)"
            routes.append({"name": f"{place}-{source}", "match": [{"path": {"regex": regex}}], **rest})

        edits = {"set": {"x-v": f"<{value}>", "x-bare": value}, "add": {"x-w": f"[{value}]"}}
        route("in", forward="p", request_headers=edits)
        route("out", forward="p", response_headers=edits)
        shown = {"content-type": "text/plain", "x-v": f"<{value}>"}
        route("body", respond={"status": 200, "body": f"begin {value} end\n", "headers": shown})
        route("to", redirect={"to": f"https://fixed.example/{value}?a=1&b={value}"})
        value = "{path}" if source == "path" else value
        route("page", forward="down", error_pages={"5xx": {"body": f"begin {value} end\n"}})
        login = {"pool": "refusing", "redirect_to": f"https://fixed.example/?a={value}&b=1"}
        route("login", forward="p", auth={"forward": login})
    return {
        "version": 1,
        "name": "hostile",
        "listeners": {"web": {"port": 8080}},
        "pools": {
            name: {"endpoints": [{"address": f"10.0.0.{number}:80"}]}
            for number, name in enumerate(("p", "down", "refusing"), 1)
        },
        "routes": routes,
    }


def hostile_texts() -> list[str]:
    """`TEXTS` different texts."""
    draw = random.Random(SEED)  # no secret
    found = dict.fromkeys(piece.strip() for piece in PIECES if piece.strip())
    while len(found) < TEXTS:
        found["".join(draw.choices(PIECES, k=draw.randint(2, 5))).strip()[:600]] = None
    return list(found)[:TEXTS]


def ask(place: str, source: str, text: str) -> Request:
    """The request that says `text` where a client can: what a place cannot hold is percent-encoded."""
    target, headers = f"/{place}-{source}/x", [("Host", HOST)]
    if source == "header":
        headers.append(("X-From", to_wire(text)))
    elif source == "cookie":
        headers.append(("Cookie", f"a=1; from={to_wire(text)}; b=2"))
    elif source == "path":
        target = f"/{place}-{source}/{quote(to_wire(text).encode('latin-1'), safe=_SAFE)}"
    else:
        target += f"?{quote(to_wire(text).encode('latin-1'), safe=_SAFE + '/?')}"
    return Request("GET", target, tuple(headers))


_SAFE = "-._~!$&'()*+,;=:@%"


def findings(place: str, answer: Answer, plain: Answer, text: str) -> Iterator[str]:
    """How an answer differs from that of a plain text in anything but the value."""
    if answer.status is None or 400 <= answer.status < 500:  # no place has such a status by itself
        return  # refused
    if answer.status != plain.status:
        yield f"status {answer.status}"
    names, known = ({name.lower() for name, _ in one.headers} for one in (answer, plain))
    if names - known:
        yield f"new headers {sorted(names - known)}"
    if lost := known - names - {"x-bare"}:  # an empty value makes no line
        yield f"lost headers {sorted(lost)}"
    for name, value in answer.headers:
        if any(char in value for char in "\r\n\0"):
            yield f"{name} holds {value!r}"
    if place in ("body", "page") and not (answer.body.startswith(b"begin ") and answer.body.endswith(b" end\n")):
        yield f"body {answer.body!r}"
    if place in ("to", "login") and not (answer.header("location") or "").startswith("https://fixed.example/"):
        yield f"location {answer.header('location')!r}"
    mine, other = account_of(answer), account_of(plain)
    if (mine is None) != (other is None):
        yield "answered by another"
    if mine is not None and other is not None:
        sent, before = ({name.lower() for name, _ in one["headers"]} for one in (mine, other))
        if sent - before or before - sent - {"x-bare"}:
            yield f"headers at the endpoint: {sorted(sent ^ before)}"
        if any(sum(n.lower() == name for n, _ in mine["headers"]) > 1 for name in ("x-v", "x-w", "host")):
            yield "a header came twice"


def exact(place: str, source: str, answer: Answer, text: str, ends: str) -> Iterator[str]:
    """Whether header fields and cookies came through as they were sent. `ends`: what ends the value of a cookie."""
    if source not in ("header", "cookie") or answer.status not in STATUSES.get(place, (200,)):
        return
    if source == "cookie" and set(text) & set(ends):
        return
    if place == "page" and answer.body != f"begin {to_wire(text)} end\n".encode("latin-1"):
        yield f"the page is {answer.body!r}"
    if place == "login" and answer.header("location") != f"https://fixed.example/?a={to_wire(text)}&b=1":
        yield f"location is {answer.header('location')!r}"
    if place in ("to", "page", "login"):
        return
    want = f"<{to_wire(text)}>"
    told = account_of(answer)
    if place == "in" and told is not None:
        got = [value for name, value in told["headers"] if name.lower() == "x-v"]
    else:
        got = list(answer.lines("x-v"))
    if got != [want]:
        yield f"x-v is {got!r}, not {want!r}"


@pytest.mark.parametrize("subject", L7)
def test_no_value_breaks_out(subject: EngineUnderTest) -> None:
    refusing = StandInSpec(behaviour=Behaviour("fixed", status=401, body="who are you?"))
    stand_ins = {"down": StandInSpec(listen="refuse"), "refusing": refusing}
    file = CaseFile("hostile", "hostile", topology(), stand_ins, ())
    ready = prepare(file, subject.engine, subject.version)
    assert ready.served is not None
    ends = ';"\t,' if subject.engine == "haproxy" else ';"\t'  # by its verdict
    counts, wrong = Counter[str](), list[str]()
    with ExitStack() as stack:
        stack.enter_context(stand_in_servers(ready.stand_ins))
        handle = stack.enter_context(run_engine(subject.engine, ready.served, subject.binary, accept=("all",)))
        wait_ready(ready.served, handle)
        address = handle.address("web")
        served = {route.name for route in ready.served.routes}
        for place in PLACES:
            for source in SOURCES:
                if f"{place}-{source}" not in served:
                    counts["refused routes"] += 1
                    continue
                plain = fetch(address, ask(place, source, "plain"))
                assert plain.status in STATUSES.get(place, (200,)), (place, source, plain)
                for text in hostile_texts():
                    answer = fetch(address, ask(place, source, text))
                    counts["served" if answer.status == plain.status else "refused"] += 1
                    problems = (*findings(place, answer, plain, text), *exact(place, source, answer, text, ends))
                    wrong += [f"{place} {source} {text!r}: {problem}" for problem in problems]
        assert handle.is_alive()
    print(f"{subject.label}: {dict(counts)}")  # noqa: T201  # figures of the run
    assert not wrong, f"{subject.label}: {len(wrong)} of {counts.total()}\n" + "\n".join(wrong[:30])
