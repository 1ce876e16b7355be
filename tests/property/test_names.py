"""No name and no text of a topology changes more than its own place: each is drawn from the spec's grammar, rendered,
and read back as the engine reads it, beside the same topology with a plain word in its place.

The trees have the same shape, and the leaves that differ hold the text (in the engine's own spelling). Then the
engine's own checker loads a topology in which all of them are drawn. What an engine cannot hold, it refuses.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from itertools import product
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from property.read_back import Tree, tree

import lbgen
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.engines.api import engines
from lbgen.engines.verdicts import judge
from lbgen.plan.resolve import plan
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.local.check import check
from tests.support.engine_lists import newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

MARKED = "abcXYZ019!#$%&'*+.^_`|~-"
TOKENS = st.text(MARKED, min_size=1, max_size=8)
# A name with an underscore is dropped unless the listener passes it: LB286.
HEADERS = st.text(MARKED.replace("_", ""), min_size=1, max_size=8).filter(
    lambda name: name.lower() not in {"host", "te", "trailer", "upgrade", "connection", "keep-alive", "server", "date"}
)
PRINTED = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
SPECIAL = st.sampled_from("ab019 \t\"'\\#$%{}[]()<>;:,=!&*|~`^?@/+-_.")
LINE = st.text(st.one_of(SPECIAL, PRINTED), min_size=1, max_size=12)
LINES = LINE.map(str.strip).filter(bool)
BODIES = st.one_of(LINES, st.tuples(LINES, LINES).map("\n".join))
QUERIES = st.text("abXY01._~:/?[]@!$'()*+,;-", min_size=1, max_size=8)
PATHS = st.text("abXY01._~:[]@!$&'()*+,;=-", min_size=1, max_size=8).filter(lambda t: set(t) != {"."}).map("/".__add__)
PARTS = st.sampled_from(
    ["a", "b+", "[0-9]{2}", "(?:x|y)", r"\.", r"\$", "#", "'", '"', " ", "%", r"\\", r"\{"],
)
REGEXES = st.lists(PARTS, min_size=1, max_size=6).map("".join)
PATH_REGEXES = REGEXES.map(lambda text: "/" + re.sub('[ "#é]', "", text))
HOSTS = st.from_regex(r"p([a-z0-9-]{0,8}[a-z0-9])?\.[a-z]{2,5}", fullmatch=True)
MEDIA = st.tuples(*[st.text("abc019!#$&^_.+-", min_size=1, max_size=6)] * 2).map("/".join)
ODD_PATHS = PATHS.map(lambda path: f"/z{path[1:]}+")  # nginx tells plain ones apart otherwise
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,12}[a-z0-9])?", fullmatch=True)
FILES = LINES.map(lambda text: f"/etc/{text.replace('/', '')}.crt")
METHODS = st.from_regex(r"[A-Z][A-Z_-]{0,7}", fullmatch=True).filter(lambda m: m not in ("TRACE", "CONNECT"))

# What is drawn: a strategy, and the plain word in its place.
SLOTS: dict[str, tuple[st.SearchStrategy[str], str]] = {
    **dict.fromkeys(("match_header", "set_name", "add_name", "remove_name", "shown_name", "answer_name", "hash_header",
                     "rate_header", "busy_header", "share_name", "cors_header", "cors_shown", "lost_name"),
                    (HEADERS, "x-plain")),
    **dict.fromkeys(("sticky", "match_cookie", "hash_cookie"), (TOKENS, "plain")),
    **dict.fromkeys(("match_query", "hash_query"), (QUERIES, "plain")),
    **dict.fromkeys(("header_value", "query_value", "cookie_value", "set_value", "add_value", "shown_value",
                     "answer_value", "share_value", "media"), (LINES, "plain")),
    "body": (BODIES, "plain"),
    **dict.fromkeys(("exact", "prefix"), (ODD_PATHS, "/zplain+")),
    **dict.fromkeys(("rewrite_path", "rewrite_prefix", "redirect_path", "redirect_prefix", "checked"),
                    (PATHS, "/plain")),
    **dict.fromkeys(("header_regex", "query_regex", "cookie_regex"), (REGEXES, "plain")),
    "path_regex": (PATH_REGEXES, "/plain"),
    **dict.fromkeys(("host", "redirect_host", "rewrite_host", "endpoint", "server_name"), (HOSTS, "plain.example")),
    "packed": (MEDIA, "text/plain"),
    "method": (METHODS, "PLAIN"),
    **dict.fromkeys(("route_name", "pool_name", "listener_name"), (NAMES, "plain")),
    **dict.fromkeys(("file", "certificate", "client_ca"), (FILES, "/etc/plain.crt")),
}  # fmt: skip


def topology(v: dict[str, str], refused: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Every slot in a route, pool or listener of its own, without the routes of those numbers."""
    pools = {
        v["pool_name"]: {"endpoints": [{"address": "10.0.0.1:80"}]},
        "p-sticky": {"endpoints": [{"address": "10.0.0.2:80"}], "sticky": {"cookie": v["sticky"], "secure": True}},
        "p-header": {"endpoints": [{"address": "10.0.0.3:80"}], "balance": {"hash": {"header": v["hash_header"]}}},
        "p-cookie": {"endpoints": [{"address": "10.0.0.4:80"}], "balance": {"hash": {"cookie": v["hash_cookie"]}}},
        "p-query": {"endpoints": [{"address": "10.0.0.5:80"}], "balance": {"hash": {"query": v["hash_query"]}}},
        "p-checked": {"endpoints": [{"address": "10.0.0.6:80"}], "health": {"active": {"path": v["checked"]}}},
        "p-named": {"endpoints": [{"address": f"{v['endpoint']}:80"}]},
        "p-tls": {
            "endpoints": [{"address": "10.0.0.7:443"}],
            "tls": {"server_name": v["server_name"], "ca": v["file"]},
        },
    }
    routes: list[dict[str, Any]] = []

    def route(**fields: Any) -> None:
        name = fields.pop("name", f"r{len(routes)}")
        on = {"listeners": [v["listener_name"]], "hosts": [f"h{len(routes)}.test"]}
        routes.append({"name": name, **on, **fields})

    to: dict[str, Any] = {"forward": v["pool_name"]}
    route(name=v["route_name"], **to)
    for pool in list(pools)[1:]:
        route(forward=pool)
    route(match=[{"headers": {v["match_header"]: v["header_value"]}}], **to)
    route(match=[{"headers": {v["match_header"]: {"regex": v["header_regex"]}}}], **to)
    route(match=[{"query": {v["match_query"]: v["query_value"]}}], **to)
    route(match=[{"query": {v["match_query"]: {"regex": v["query_regex"]}}}], **to)
    route(match=[{"cookies": {v["match_cookie"]: v["cookie_value"]}}], **to)
    route(match=[{"cookies": {v["match_cookie"]: {"regex": v["cookie_regex"]}}}], **to)
    route(match=[{"path": {"exact": v["exact"]}}], **to)
    route(match=[{"path": {"prefix": v["prefix"]}}], **to)
    route(match=[{"path": {"regex": v["path_regex"]}}], **to)
    route(match=[{"methods": [v["method"]]}], **to)
    route(hosts=[v["host"]], **to)
    route(hosts=[f"*.w-{v['host']}"], **to)
    route(rate_limit={"rate": "5/s", "key": {"header": v["rate_header"]}}, **to)
    route(concurrency={"max": 5, "key": {"header": v["busy_header"]}}, **to)
    route(request_headers={"set": {v["set_name"]: v["set_value"]}}, **to)
    route(request_headers={"add": {v["add_name"]: v["add_value"]}}, **to)
    route(request_headers={"remove": [v["remove_name"]]}, **to)
    route(response_headers={"set": {v["shown_name"]: v["shown_value"]}, "remove": [v["lost_name"]]}, **to)
    route(response_headers={"add": {v["shown_name"]: v["shown_value"]}}, **to)
    share = {"pool": v["pool_name"], "request_headers": {"set": {v["share_name"]: v["share_value"]}}}
    route(forward=[share, {"pool": "p-sticky"}])
    route(rewrite={"path": v["rewrite_path"], "host": v["rewrite_host"]}, **to)
    route(match=[{"path": {"prefix": "/cut"}}], rewrite={"prefix": v["rewrite_prefix"]}, **to)
    route(redirect={"host": v["redirect_host"], "path": v["redirect_path"]})
    route(match=[{"path": {"prefix": "/cut"}}], redirect={"prefix": v["redirect_prefix"]})
    route(respond={"status": 200, "body": v["body"], "headers": {v["answer_name"]: v["answer_value"]}})
    route(respond={"status": 200, "body": "$", "headers": {"content-type": v["media"]}})
    route(compression={"types": [v["packed"]]}, **to)
    route(
        cors={"origins": ["https://a.example"], "headers": [v["cors_header"]], "expose_headers": [v["cors_shown"]]},
        **to,
    )
    route(listeners=["secure"], **to)
    certificate = {"cert": v["certificate"], "key": f"{v['certificate']}.key", "names": ["a.example"]}
    return {
        "version": 1,
        "name": "names",
        "listeners": {
            v["listener_name"]: {"port": 8080},
            "secure": {"port": 8443, "tls": {"certificates": [certificate], "client": {"ca": v["client_ca"]}}},
        },
        "pools": pools,
        "routes": [each for number, each in enumerate(routes) if number not in refused],
        "resolvers": ["127.0.0.53"],
    }


# No two alike, so that nothing of one is shared with another.
PLAIN = {name: re.sub("plain", f"plain{n:02}", word, flags=0) for n, (name, (_, word)) in enumerate(SLOTS.items())}
PLAIN["method"] = "PLAIN"


class RefusedError(Exception):
    """The engine says that it cannot hold a value."""


@cache
def refused_routes(engine: str, version: str) -> frozenset[int]:
    """The numbers of the routes that the engine refuses with plain words, for themselves or for their pool."""
    data = topology(PLAIN)
    fields = [each.field for each in judge(plan(lbgen.load(data)), engines()[engine], version, ("all",))[1]]
    pools = {name for name in data["pools"] if any(field.startswith(f"pools.{name}.") for field in fields)}
    return frozenset(
        number
        for number, route in enumerate(data["routes"])
        if str(route.get("forward")) in pools or any(field.startswith(f"routes[{number}].") for field in fields)
    )


def rendered(engine: str, values: dict[str, str]) -> dict[str, str]:
    target = engines()[engine]
    version = target.versions[0]
    made = plan(lbgen.load(topology(values, refused_routes(engine, version))))
    if judge(made, target, version, ("all",))[1]:
        raise RefusedError
    return {file.name: file.text for file in target.render(made, version)}


REGEX = re.compile(r"~|\(\?:|\^\(\?:")  # what regexes match is shown by the conformance cases
SAFE = re.compile(r"[$@A-Za-z0-9_.:/{}()~=|,\n-]*")  # names that code made


def spellings(text: str) -> list[str]:
    """How a text is written that the engine reads back as that text."""
    titled = "-".join(part.capitalize() for part in text.split("-"))
    quoted = f'"{text}"' if "'" in text else text  # the argument of a fetch of HAProxy
    found = [
        text,
        text.lower(),
        titled,
        text.replace("%", "%%"),
        quoted.lower(),
        quoted,
        quote(text, safe="").replace("~", "%7E"),
    ]
    found += [each.replace("$", "${dollar}") for each in (text, text.lower())]  # nginx has no other spelling
    found.append(text.lower().replace("-", "_"))  # in the name of a variable
    return list(dict.fromkeys(found))


def unescaped(leaf: str) -> str:
    """A regex of nginx or RE2 with its escapes as what they stand for."""
    raw = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), leaf)
    raw = re.sub(r"\\(.)", r"\1", raw)
    return raw if max(raw, default="") > "\xff" else raw.encode("latin-1").decode("utf-8", "replace")


def holds(one: str, other: str, plain: str, text: str) -> bool:
    """Whether `other` is `one` with the text in the place of the plain word."""
    pairs = [(a, b) for a, b in product(spellings(plain), spellings(text)) if a in one]
    if any(other == one.replace(a, b) for a, b in pairs):
        return True
    return any(unescaped(other) == unescaped(one).replace(a, unescaped(b)) for a, b in pairs)


def differences(one: Tree, other: Tree, plain: str, text: str, at: str = "") -> Iterator[tuple[str, str]]:
    """(place, what is wrong), and ("", "") for each leaf that holds the text as it should."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, plain, text, f"{at}/{n}")
    elif one == other:
        return
    elif not (isinstance(one, str) and isinstance(other, str)):
        yield at, f"{one!r} became {other!r}"
    elif holds(one, other, plain, text) or (REGEX.match(one) and REGEX.match(other)):
        yield "", ""
    elif not (SAFE.fullmatch(one) and SAFE.fullmatch(other)):
        yield at, f"{one!r} became {other!r}"


L7 = ("envoy", "haproxy", "nginx", "traefik")
MARKS = "#$%'`*|&~"
TOKEN_SLOTS = ("sticky", "match_cookie", "hash_cookie", "rate_header", "busy_header", "match_header", "set_name",
               "share_name", "packed")  # fmt: skip
HEADER_NAMES = [slot for slot, (strategy, _) in SLOTS.items() if strategy in (HEADERS, TOKENS)]


def read(engine: str, values: dict[str, str]) -> dict[str, Tree]:
    return {name: tree(engine, name, text) for name, text in rendered(engine, values).items()}


@cache
def plain(engine: str) -> dict[str, Tree]:
    return read(engine, PLAIN)


def named(trees: dict[str, Tree], text: str) -> list[Tree]:
    """Names of files, without the text that may be part of them, and their trees."""
    return [[name.replace(text, ""), each] for name, each in trees.items()]


def comes_back(engine: str, slot: str, text: str) -> bool:
    """Whether the engine takes the text; AssertionError where it changes more than its place."""
    try:
        other = named(read(engine, {**PLAIN, slot: text}), text)
    except RefusedError:
        return False
    one = named(plain(engine), PLAIN[slot])
    if not any(each in str(one) for each in spellings(PLAIN[slot])):
        return False  # its route is one that the engine refuses
    found = list(differences(one, other, PLAIN[slot], text))
    wrong = [what for _, what in found if what]
    assert not wrong, f"{engine}, {slot} {text!r}: {wrong[0]}"
    assert found or text == PLAIN[slot], f"{engine}, {slot} {text!r} is nowhere"
    return True


def drawn(slot: str) -> st.SearchStrategy[tuple[str, str]]:
    return SLOTS[slot][0].map(lambda text: (slot, text))


@pytest.mark.parametrize("engine", L7)
def test_a_text_changes_its_own_place_only(engine: str) -> None:
    taken = []

    @settings(
        max_examples=int(os.environ.get("LBGEN_NAMES", "25")),
        deadline=None,
        database=None,
        derandomize="LBGEN_NAMES" not in os.environ,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(sorted(SLOTS)).flatmap(drawn))
    def one(pair: tuple[str, str]) -> None:
        taken.append(comes_back(engine, *pair))

    one()
    assert sum(taken) > len(taken) / 2  # what is refused shows nothing


@pytest.mark.parametrize("engine", L7)
@pytest.mark.parametrize("slot", TOKEN_SLOTS)
def test_every_mark_in_a_name_comes_back_or_is_refused(engine: str, slot: str) -> None:
    lead, marks = ("a/", "#$&^") if slot == "packed" else ("", MARKS)
    for text in (f"{lead}{marks}x{marks}", f"{lead}#x", f"{lead}$x"):
        comes_back(engine, slot, text)


def accepted(engine: str, version: str, values: dict[str, str]) -> dict[str, str]:
    """`values`, but the plain word where the engine refuses one."""

    def refused(more: dict[str, str]) -> bool:
        made = plan(lbgen.load(topology(PLAIN | more, refused_routes(engine, version))))
        return bool(judge(made, engines()[engine], version, ("all",))[1])

    assert not refused({})
    return {slot: PLAIN[slot] if refused({slot: text}) else text for slot, text in values.items()}


@pytest.mark.engines
@pytest.mark.parametrize("subject", newest_first(s for s in engines_on_host() if s.engine in L7))
def test_the_engine_loads_all_of_them(subject: EngineUnderTest) -> None:
    """Two topologies with every slot drawn, and one with marks in every name."""
    certificates = temporary_certificates()

    def load(folder: Path, values: dict[str, str]) -> None:
        values = accepted(subject.engine, subject.version, values)
        for slot, source in (("file", "ca"), ("certificate", "shop"), ("client_ca", "client-ca")):
            target = folder / f"{PurePath(values[slot]).stem}-{slot}.crt"
            shutil.copy(certificates / f"{source}.crt", target)
            target.chmod(0o644)
            if slot == "certificate":
                key = Path(shutil.copy(certificates / "shop.key", f"{target}.key"))
                key.chmod(0o644)
            values[slot] = str(target)
        made = topology(values, refused_routes(subject.engine, subject.version))
        data = made | {"engines": {subject.engine: {"version": subject.version}}}
        problems = check(plan(lbgen.load(data)), subject.engine, binary=subject.binary, accept=("all",))
        assert not problems, [*map(str, problems), values]

    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.fixed_dictionaries({slot: strategy for slot, (strategy, _) in SLOTS.items()}))
    def one(values: dict[str, str]) -> None:
        load(
            folder,
            PLAIN | {slot: text for slot, text in values.items() if not slot.endswith("_name") or slot in HEADER_NAMES},
        )

    with TemporaryDirectory() as name:  # that the checkers can read, which run without rights
        folder = Path(name)
        folder.chmod(0o755)
        load(folder, PLAIN | {slot: f"{MARKS}{n}" for n, slot in enumerate(HEADER_NAMES)})
        one()
