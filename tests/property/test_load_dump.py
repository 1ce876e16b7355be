"""What is loaded can be written out and loaded again as the same; whatever is fed in ends in data or in findings."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from lbgen.diagnostics import LbgenError
from lbgen.spec.dump import dump, dump_topology
from lbgen.spec.load import load, load_bytes
from lbgen.spec.network import parse_host
from lbgen.spec.source import read_bytes, read_text
from lbgen.spec.starter import starter
from lbgen.spec.values import parse_regex

ERRORS = Path(__file__).parents[1] / "errors"
SEEDS = [path.read_bytes() for path in sorted(ERRORS.glob("*.yaml"))] + [starter().encode()]

texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = texts | st.sampled_from(["on", "y", "null", "022", "1e3", "- x", "a: b", "#", "@", "<<", "", " ", "0o7", "1:30"])
scalars = keys | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3))
plain = st.recursive(scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(keys, x, max_size=4), max_leaves=20)


@given(st.dictionaries(keys, plain, min_size=1, max_size=6))
@example({"a": [[], {}, [[]], {"b": []}], "c": {}, "d": -0.0, "e": "\u2028\x85\ufeff\U0001f600"})
def test_dumped_data_is_read_back(data: dict[str, Any]) -> None:
    assert read_text(dump(data), "x").data == data


names = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?", fullmatch=True)
lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).map(lambda x: f"x{x}x")
durations = st.builds("{}{}".format, st.integers(0, 500), st.sampled_from(["ms", "s", "m", "h"]))
paths = st.from_regex(r"(/[a-z0-9_~!$&'()*+,;=:@-]+|/%[c-f][0-9a-f]){1,3}/?", fullmatch=True)
headers = st.dictionaries(st.from_regex(r"x-[a-z0-9_.]{1,6}", fullmatch=True), lines, min_size=1, max_size=3)
hosts = st.sampled_from(["shop.example", "*.shop.example", "B\u00fccher.example", "192.0.2.1", "[2001:DB8::1]", "a_b"])
values = lines | st.just({"present": True}) | st.just({"regex": "a[0-9]+|b"})
matches = st.fixed_dictionaries(
    {"path": st.builds(lambda k, p: {k: p}, st.sampled_from(["exact", "prefix"]), paths)},
    optional={
        "methods": st.lists(st.sampled_from(["GET", "POST", "PURGE"]), min_size=1),
        "headers": st.dictionaries(st.just("X-A"), values, min_size=1),
        "query": st.dictionaries(st.sampled_from(["q", "on", "a[]"]), values, min_size=1),
        "cookies": st.dictionaries(st.just("Plan"), values, min_size=1),
    },
)
actions = st.one_of(
    st.fixed_dictionaries({"forward": names}),
    st.fixed_dictionaries(
        {
            "forward": st.lists(
                st.fixed_dictionaries({"pool": names}, optional={"weight": st.integers(0, 100)}), min_size=1
            )
        }
    ),
    st.fixed_dictionaries(
        {"redirect": st.fixed_dictionaries({"path": paths}, optional={"status": st.sampled_from([301, 308])})}
    ),
    st.fixed_dictionaries(
        {
            "respond": st.fixed_dictionaries(
                {"status": st.integers(200, 599)}, optional={"body": lines.map(lambda x: f"{x}\n"), "headers": headers}
            )
        }
    ),
)
extras = st.fixed_dictionaries(
    {"name": names},
    optional={
        "hosts": st.lists(hosts, min_size=1, max_size=3),
        "match": st.lists(matches, min_size=1, max_size=3),
        "timeouts": st.fixed_dictionaries({}, optional={"connect": durations, "request": durations}),
        "request_headers": st.fixed_dictionaries({}, optional={"set": headers, "add": headers}),
        "max_body": st.sampled_from(["1B", "16KiB", "10MiB"]),
        "rate_limit": st.just({"rate": "100/s", "burst": 5, "key": {"header": "X-Key"}}),
        "retries": st.just({"max": 2, "on": ["reset", 503], "budget": "20%"}),
        "mirror": st.just({"pool": "shadow", "percent": 10}),
        "priority": st.integers(-5, 5),
    },
)
routes = st.builds(lambda extra, action: {**extra, **action}, extras, actions)
pools = st.fixed_dictionaries(
    {"endpoints": st.lists(st.just({"address": "10.0.0.1:80"}) | st.just({"address": "[::1]:80"}), min_size=1)},
    optional={
        "balance": st.sampled_from(["round_robin", {"hash": {"cookie": "LB"}}]),
        "health": st.just({"active": {"path": "/h?x=1", "expect": ["200-299", 404]}}),
    },
)
topologies = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "name": names,
        "listeners": st.dictionaries(names, st.fixed_dictionaries({"port": st.integers(1, 65535)}), max_size=2),
        "pools": st.dictionaries(names, pools, max_size=3),
        "routes": st.lists(routes, max_size=5),
    },
    optional={
        "profile": st.sampled_from(["minimal", "production", "edge", "low-latency", "internal-l4"]),
        "paths": st.sampled_from(["strict", {"allow": ["empty_segments"]}]),
        "engines": st.just({"nginx": {"version": "1.31", "http": "# \u00e9\n"}}),
    },
)


@given(topologies)
def test_a_loaded_topology_is_dumped_and_loaded_as_the_same(data: dict[str, Any]) -> None:
    model = load(data).model
    text = dump_topology(model)
    again = load_bytes(text.encode(), "x.yaml", Path())
    assert again.model == model
    assert dump_topology(again.model) == text


def refusal(topology: bytes | dict[str, Any]) -> LbgenError | None:
    """The findings, or None when it loads; anything else that is raised fails the test."""
    try:
        load_bytes(topology, "x.yaml", ERRORS) if isinstance(topology, bytes) else load(topology)
    except LbgenError as error:
        return error
    return None


def tolerated(raw: bytes) -> None:
    error = refusal(raw)
    assert error is None or (error.diagnostics and str(error).encode())


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf")
@example(b"a: &a [*a]")
@example(b"{? [a]: b}")
@example(b"%YAML 9.9\n---\na")
@example(b"a: !<x> b")
@example(b'profile: "\\0/../x.yaml"')
@example(b"port: " + b"9" * 5000)
@example(b"profile: /dev/null")
@example(b"profile: .")
def test_any_bytes_end_in_findings(raw: bytes) -> None:
    tolerated(raw)


@given(st.data())
@settings(max_examples=150)
def test_mutated_topologies_end_in_findings(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        at, end = sorted((data.draw(st.integers(0, len(raw))), data.draw(st.integers(0, len(raw)))))
        end = min(end, at + 12)
        other = data.draw(st.sampled_from(SEEDS))
        start = data.draw(st.integers(0, len(other)))
        put = data.draw(st.binary(max_size=6) | st.just(other[start : start + 12]))
        raw = raw[:at] + put + raw[end:]
    tolerated(raw)


def paths_in(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [at, *(path for key, value in items for path in paths_in(value, (*at, key)))]


odd = st.none() | scalars | st.lists(scalars, max_size=2) | st.dictionaries(keys, scalars, max_size=2) | st.binary()


@given(topologies, st.data())
def test_odd_values_anywhere_end_in_findings(topology: dict[str, Any], data: st.DataObject) -> None:
    topology = deepcopy(topology)  # parts of it are shared between examples
    where = data.draw(st.sampled_from(paths_in(topology)[1:]))
    inner: Any = topology
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = data.draw(odd)
    error = refusal(topology)
    assert error is None or all(d.span.file == "<dict>" for d in error.diagnostics)


atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", r"\t", "(?:a|b)", "(a)", "", "/", "-", "{"]
)
repeats = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "*?", "++", "{,2}"])
pieces = st.builds("{}{}".format, atoms, repeats)
patterns = st.lists(st.lists(pieces, max_size=4).map("".join), min_size=1, max_size=3).map("|".join) | texts


@given(patterns, st.lists(st.text("ab./-1{ \t", max_size=6), min_size=5, max_size=5))
@example("^a$|b", ["a", "b", "a\n", "ab", ""])
def test_an_accepted_regex_means_the_same_to_a_backtracking_engine(pattern: str, subjects: list[str]) -> None:
    try:
        parse_regex(pattern)
    except PydanticCustomError:
        return
    for subject in subjects:
        whole = re.fullmatch(pattern, subject, re.ASCII) is not None
        assert (re2.fullmatch(pattern, subject) is not None) == whole


@given(hosts | texts)
def test_a_parsed_host_is_parsed_as_itself(written: str) -> None:
    try:
        host = parse_host(written)
    except ValueError:
        return
    assert parse_host(host) == host


def test_the_same_bytes_read_twice_are_equal() -> None:
    assert read_bytes(starter().encode(), "x").data == read_bytes(starter().encode(), "x").data
