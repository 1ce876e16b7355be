"""No text of a topology breaks out of its place: awkward strings in every free-text field come back unchanged, or are
refused by name, on every engine.

`LBGEN_FREE_TEXT=500` sets the number of random topologies per engine (default 3, of 10 texts in 8 fields each).
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lbgen.conformance.case import CaseFile
from lbgen.conformance.http1_client import Answer, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import Prepared, prepare
from lbgen.conformance.wait_ready import wait_ready
from lbgen.plan.request import Request, encode_query, to_wire
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from tests.support.engine_lists import l7_engines_on_host, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = pytest.mark.engines
ROUNDS = int(os.environ.get("LBGEN_FREE_TEXT", "3"))
PER_TOPOLOGY = 10
L7 = newest_first(l7_engines_on_host())

# Whole strings that mean something to one engine or another, to YAML, Go templates, Lua, regexes or a shell.
NASTY = (
    "$host", "${host}", "$1", "$$", "$", "%[src]", "%%", "%", "%PROTOCOL%", "%REQ(:path)%", "%d%s", "%ci:%cp",
    "{{ env \"HOME\" }}", "{{", "}}", "{%", "{# x #}", "`id`", "`", "$(id)", "\"", "'", "\\", "\\\\", "\\n",
    "\\x41", "\\\"", "\"; return 500; #", "' } ; {", "#", "# comment", "; proxy_pass http://x;", "{", "}", "{}",
    "[]", "- a", "a: b", "a #b", "&a", "*a", "!tag", "|", ">", "@x", "%YAML", "null", "true", "~", "1", "0x10",
    "1e3", "=", ",", "a,b", "a, b", ", ,", "a  b", "<script>", "é", "日本", "😀", "\u00ad", "\u2028", "a\u0301",
    "unless { always_true }", "if TRUE", "str(x)", "-m found", "req.hdr(host)", "var(txn.x)", "lua.x", "%{+Q}o",
    "%T", "]]", "]] .. os.exit()", "${ENV}", "${HOME-}", "\"${HOME}\"", "$env:x", "\\$host", "\\{{", "\\u0041",
    "(", ")", "(?i)x", ".*", "^$", "a|b", "a?b", "x" * 500, "\t.", "a\tb", "GET / HTTP/1.1", "http://x/", "://",
    "javascript:", "\"\"", "''", "\"a\"", "a\"b\"c", "a;b", ";", "a=b", "k=v; Path=/", "%0d%0aX: y", "%00", "+",
    "a+b", "&", "a&b",
)  # fmt: skip
TEXTS = (
    st.lists(
        st.one_of(
            st.sampled_from(NASTY),
            st.characters(min_codepoint=0x20, max_codepoint=0x7E),
            st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")),
        ),
        min_size=1,
        max_size=8,
    )
    .map(lambda parts: "".join(parts).strip()[:900])
    .filter(bool)
)
PATH_TEXTS = st.text("abcXYZ019-._~:@!$&'()*+,;=[]", min_size=1, max_size=12).filter(lambda t: set(t) != {"."})


def topology(texts: list[str], paths: list[str]) -> dict[str, Any]:
    """Every text in every free-text field, each in a route of its own, found by the path."""
    routes: list[dict[str, Any]] = []

    def route(name: str, match: dict[str, Any], **rest: object) -> None:
        routes.append({"name": name, "match": [match], **rest})

    for i, text in enumerate(texts):
        edits = {"set": {"x-s": text}, "add": {"x-a": text}}
        route(f"s{i}", {"path": {"exact": f"/s{i}"}}, forward="p", request_headers=edits, response_headers=edits)
        route(f"h{i}", {"path": {"exact": f"/h{i}"}, "headers": {"x-m": text}}, respond={"status": 200, "body": "hit"})
        route(f"q{i}", {"path": {"exact": f"/q{i}"}, "query": {"q": text}}, respond={"status": 200, "body": "hit"})
        if usable_cookie(text):
            route(
                f"c{i}", {"path": {"exact": f"/c{i}"}, "cookies": {"c": text}}, respond={"status": 200, "body": "hit"}
            )
        shown = {"content-type": "text/plain", "x-b": text}
        route(
            f"r{i}", {"path": {"exact": f"/r{i}"}}, respond={"status": 200, "body": f"{text}\n{text}", "headers": shown}
        )
    for i, path in enumerate(paths):
        route(f"l{i}", {"path": {"exact": f"/l{i}"}}, redirect={"path": f"/{path}"})
        route(f"w{i}", {"path": {"exact": f"/w{i}"}}, forward="p", rewrite={"path": f"/{path}"})
        route(f"v{i}", {"path": {"prefix": f"/v{i}"}}, forward="p", rewrite={"prefix": f"/{path}"})
        route(f"e{i}", {"path": {"exact": f"/e{i}/{path}"}}, respond={"status": 200, "body": "hit"})
        route(f"p{i}", {"path": {"prefix": f"/p{i}/{path}"}}, respond={"status": 200, "body": "hit"})
    return {
        "version": 1,
        "name": "text",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": routes,
    }


def usable_cookie(text: str) -> bool:
    return not set(text) & set(';"') and text == text.strip()


def get(target: str, *headers: tuple[str, str]) -> Request:
    return Request("GET", target, (("Host", "h"), *headers))


def read_back(
    ready: Prepared, address: tuple[str, int], texts: list[str], paths: list[str], *, adds: bool
) -> Iterator[str]:
    """What did not come back as it was written; `adds`: the engine leaves the lines of a client beside its own."""
    served = {r.name for r in ready.served.routes} if ready.served is not None else set()

    def check(name: str, what: str, got: object, want: object) -> Iterator[str]:
        if got != want:
            yield f"{name} {what}: got {got!r}, wrote {want!r}"

    def status(name: str, request: Request, want: int = 200) -> Iterator[str]:
        answer = fetch(address, request)
        yield from check(name, "status", answer.status, want)

    def sent(answer: Answer, name: str) -> list[str]:
        told = account_of(answer) or {"headers": []}
        return [v for n, v in told["headers"] if n.lower() == name]

    for i, text in enumerate(texts):
        wire = to_wire(text)
        if f"s{i}" in served:
            answer = fetch(address, get(f"/s{i}", ("x-s", "other"), ("x-a", "first")))
            yield from check(f"s{i}", "request set", sent(answer, "x-s"), [wire])
            whole = f"first, {wire}" if adds else wire
            yield from check(f"s{i}", "request add", ", ".join(sent(answer, "x-a")), whole)
            yield from check(f"s{i}", "response set", answer.lines("x-s"), (wire,))
            yield from check(f"s{i}", "response add", answer.lines("x-a"), (wire,))
        if f"h{i}" in served:
            yield from status(f"h{i} {text!r} header match", get(f"/h{i}", ("x-m", wire)))
            yield from status(f"h{i} {text!r} header miss", get(f"/h{i}", ("x-m", wire + "x")), 404)
        if f"q{i}" in served:
            yield from status(f"q{i} {text!r} query match", get(f"/q{i}?q={encode_query(text)}"))
            yield from status(f"q{i} {text!r} query miss", get(f"/q{i}?q={encode_query(text)}x"), 404)
        if f"c{i}" in served:
            yield from status(f"c{i} {text!r} cookie match", get(f"/c{i}", ("Cookie", f"b=1; c={wire}")))
            yield from status(f"c{i} {text!r} cookie miss", get(f"/c{i}", ("Cookie", f"b=1; c={wire}x")), 404)
        if f"r{i}" in served:
            answer = fetch(address, get(f"/r{i}"))
            yield from check(f"r{i}", "body", answer.body, f"{text}\n{text}".encode())
            yield from check(f"r{i}", "header", answer.lines("x-b"), (wire,))
    for i, path in enumerate(paths):
        if f"l{i}" in served:
            location = fetch(address, get(f"/l{i}")).header("location")
            yield from check(f"l{i}", "location", location, f"http://h:{address[1]}/{path}")
        for name, target in ((f"w{i}", f"/{path}"), (f"v{i}", f"/{path}")):
            if name in served:
                told = account_of(fetch(address, get(f"/{name}"))) or {"target": None}
                yield from check(name, "rewrite", told["target"], target)
        for name in (f"e{i}", f"p{i}"):
            if name in served:
                yield from status(f"{name} {path!r} path match", get(f"/{name}/{path}"))
                yield from status(f"{name} {path!r} path miss", get(f"/{name}/{path}x"), 404)


def trial(subject: EngineUnderTest, texts: list[str], paths: list[str], counts: Counter[str]) -> None:
    file = CaseFile("text", "text", topology(texts, paths), {}, ())
    ready = prepare(file, subject.engine, subject.version)
    counts["written"] += len(file.topology["routes"])
    counts["refused"] += len(ready.verdicts.routes)
    assert ready.served is not None, ready.verdicts
    assert all(reason for reason in ready.verdicts.routes.values())
    with ExitStack() as stack:
        stack.enter_context(stand_in_servers(ready.stand_ins))
        handle = stack.enter_context(run_engine(subject.engine, ready.served, subject.binary, accept=("all",)))
        wait_ready(ready.served, handle)
        adds = subject.engine != "traefik"  # which replaces them, by its verdict
        wrong = list(read_back(ready, handle.address("web"), texts, paths, adds=adds))
        assert not wrong, f"{subject.label}: {len(wrong)} texts changed\n" + "\n".join(wrong[:20])
        assert handle.is_alive()


@pytest.mark.parametrize("subject", L7)
def test_known_awkward_texts_come_back(subject: EngineUnderTest) -> None:
    counts: Counter[str] = Counter()
    texts = [t for t in NASTY if t == t.strip()]
    trial(
        subject,
        texts,
        ["$1", "$host", "a'b", "(x)", "[y]", "a;b", "a&b=c", "%25", "%E2%9C%93", "*", "!x", "~y"],
        counts,
    )
    print(f"{subject.label}: {dict(counts)}")  # noqa: T201  # figures of the run
    assert counts["refused"] < counts["written"] / 4


@pytest.mark.parametrize("subject", L7)
def test_random_texts_come_back(subject: EngineUnderTest) -> None:
    counts: Counter[str] = Counter()

    @settings(
        max_examples=ROUNDS,
        deadline=None,
        database=None,
        derandomize="LBGEN_FREE_TEXT" not in os.environ,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(TEXTS, min_size=PER_TOPOLOGY, max_size=PER_TOPOLOGY),
        st.lists(PATH_TEXTS, min_size=4, max_size=4),
    )
    def one(texts: list[str], paths: list[str]) -> None:
        trial(subject, texts, paths, counts)

    one()
    print(f"{subject.label}: {dict(counts)}")  # noqa: T201  # figures of the run
