"""YAML text into data and places: scalars of 1.2, what is refused, and how much a hostile file may cost."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.diagnostics import LbgenError, Span
from lbgen.spec.compose import DEEPEST, compose
from lbgen.spec.marks import Marks, field_path
from lbgen.spec.source import LARGEST_FILE, read_bytes, read_file, read_mapping, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

# A hostile file gets no more than this much processor time and memory.
SECONDS = 10
MEMORY = 1 << 30

GUARDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
from lbgen.diagnostics import LbgenError
from lbgen.spec.load import load
try:
    load(sys.argv[1])
except LbgenError as error:
    print(error.diagnostics[0].code)
"""


def codes(text: str | bytes) -> list[str]:
    with pytest.raises(LbgenError) as caught:
        read_bytes(text, "x") if isinstance(text, bytes) else read_text(text, "x")
    return [d.code for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("8080", 8080),
        ("-3", -3),
        ("0", 0),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("250ms", "250ms"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:8080", "10.0.0.1:8080"),
        ("200-299", "200-299"),
        ("y", "y"),
        ("'on'", "on"),
        ('"022"', "022"),
        ('"\\u00e9"', "\u00e9"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("100/s", "100/s"),
        ("1_a", "1_a"),
    ],
)
def test_scalars(written: str, value: Any) -> None:
    data = read_text(f"a: {written}", "x").data["a"]
    assert data == value
    assert type(data) is type(value)


@pytest.mark.parametrize(
    "written",
    [
        "on",
        "Off",
        "yes",
        "NO",
        "022",
        "08",
        "0o17",
        "22:22",
        "1:30:00.5",
        "1_000",
        "0b11",
        "1e3",
        "2024-01-01",
        "=",
        "<<",
    ],
)
def test_scalars_that_yaml_versions_read_differently(written: str) -> None:
    assert codes(f"a: [{written}]") == ["LB106"]


@pytest.mark.parametrize("written", ["null", "~", "", "Null"])
def test_no_value_is_a_finding(written: str) -> None:
    assert codes(f"a: {written}\nb: 1") == ["LB105"]


def test_keys() -> None:
    assert read_text("on: 1\n'022': 2\ny: 3\na b: 4", "x").data == {"on": 1, "022": 2, "y": 3, "a b": 4}
    assert codes("8080: 1") == ["LB105"]
    assert codes("true: 1") == ["LB105"]
    assert codes("022: 1") == ["LB106"]
    assert codes("[a]: 1") == ["LB105"]
    assert codes("? {a: 1}\n: 1") == ["LB105"]
    assert codes("'<<': 1\n<<: 2") == ["LB107"]


def test_all_findings_of_the_text_come_together_in_order() -> None:
    assert codes("a: on\nb: 1\nb: 2\nc: !x 3\nd: 010\n") == ["LB106", "LB102", "LB107", "LB106"]


def test_anchors_are_read_where_they_stand() -> None:
    source = read_text("a: &x {port: 1}\nb: *x", "x")
    assert source.data == {"a": {"port": 1}, "b": {"port": 1}}
    assert source.marks.span("b.port") == Span("x", 1, 14)


def test_encodings() -> None:
    assert read_bytes(b"\xef\xbb\xbfa: 1", "x").data == {"a": 1}
    assert codes("a: 1".encode("utf-16")) == ["LB109"]
    assert codes(b"a: \xe9") == ["LB109"]
    assert codes(b"a: \x00") == ["LB109"]
    with pytest.raises(LbgenError) as caught:
        read_bytes(b"a: 1\nb: \x80", "x")
    assert caught.value.diagnostics[0].span == Span("x", 2, 4)


def test_files_that_cannot_be_read(tmp_path: Any) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / "a\0b"):
        with pytest.raises(LbgenError) as caught:
            read_file(path)
        assert caught.value.diagnostics[0].code == "LB110"


def test_places() -> None:
    text = 'a:\n  b.c: [1, {d: "x"}]\n  b: {c: 2}\n'
    marks = read_text(text, "x").marks
    assert marks.span("a.b.c[1].d") == Span("x", 2, 16)
    assert marks.span("a.b.c[1].d", key=True) == Span("x", 2, 13)
    assert marks.span("a.b.c") == Span("x", 2, 8), "the longest key wins"
    assert marks.span("a.b") == Span("x", 3, 6)
    assert marks.span("a.b.c[7].e") == marks.span("a.b.c"), "what is not there is at what is around it"
    assert marks.span("nothing") == Span("x", 1, 1)
    assert field_path(("routes", 2, "retries", "max")) == "routes[2].retries.max"


def test_places_among_many_keys() -> None:
    marks = read_text("".join(f"k{i}: {{ v: {i} }}\n" for i in range(100)), "x").marks
    assert marks.span("k57.v") == Span("x", 58, 11)


def test_python_data() -> None:
    source = read_mapping({"a": (1, "x", {"b": True})})
    assert source.data == {"a": [1, "x", {"b": True}]}
    assert source.marks.span("a[2].b") == Span("<dict>")
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for bad in ({"a": None}, {1: "a"}, {"a": b"x"}, {"a": object()}, {"a": {1, 2}}, {"a": "\ud800"}, loop):
        with pytest.raises(LbgenError):
            read_mapping(bad)


# Made when asked for: they are large.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "alias bomb": lambda: (
        b"a: &a [x, x]\n"
        + b"".join(
            b"b%d: &b%d [%s, %s]\n" % (i, i, *([b"*a" if i == 0 else b"*b%d" % (i - 1)] * 2)) for i in range(10_000)
        )
    ),
    "many aliases of a large list": lambda: b"a: &a [" + b"x, " * 1000 + b"x]\nb: [" + b"*a, " * 10_000 + b"*a]\n",
    "an anchor inside itself": lambda: b"a: &a [*a, *a]\n",
    "50 MB": lambda: b"# " + b"x" * 50_000_000,
    "many values": lambda: b"[" + b"a," * (LARGEST_FILE // 2 - 8) + b"a]",
    "many keys": lambda: b"".join(b"k%d: {a: b}\n" % i for i in range(900_000)),
    "deep brackets": lambda: b"[" * 8_000_000,
    "deep blocks": lambda: b"- " * 8_000_000,
    "deep mappings": lambda: b"{a: " * 4_000_000,
    "a long number": lambda: b"a: " + b"9" * 16_000_000,
    "many unknown keys": lambda: b"".join(b"k%d: 1\n" % i for i in range(240_000)),
    "zeros": lambda: bytes(1_000_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_a_finding_soon(name: str, tmp_path: Any) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_bytes(HOSTILE[name]())
    code = GUARDED.format(seconds=SECONDS, memory=MEMORY)
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("LB")


def test_depth_that_is_still_read() -> None:
    assert read_text("[" * DEEPEST + "]" * DEEPEST, "x").data
    assert codes("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)) == ["LB108"]


def test_places_are_found_among_more_aliases_than_memory_holds() -> None:
    lists = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    marks = Marks("t.yaml", compose("\n".join(["a0: &a0 [x]", *lists]), "t.yaml"))
    found = str(marks.span("a11[1][2]"))  # apart: pytest would print the marks
    assert found == "t.yaml:10:5"
