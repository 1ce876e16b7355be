"""The composer that keeps its limits by functions written in C gives what the other one gives."""

from __future__ import annotations

import pytest
import yaml
from yaml.nodes import Node, ScalarNode

from lbgen.diagnostics import LbgenError
from lbgen.spec import compose
from lbgen.spec.compose import DEEPEST

_DEEP = DEEPEST - 1
_TEXTS = (
    "name: shop",
    "a: [b, {c: d, 'e': \"f\"}]\ng: |\n  text\n",
    "a: &x {b: c}\nd: *x",
    "a: &x [*x]",
    f"{'[' * _DEEP}a{']' * _DEEP}",
    f"{'[' * DEEPEST}{']' * DEEPEST}",
    f"{'[' * DEEPEST}a{']' * DEEPEST}",
    "- " * 5000 + "x",
    "? " * 5000 + "x",
    "\n".join(f"{' ' * n}a:" for n in range(1000)),
    "[" * 100_000,
    "!!seq [" * 1000,
    "[" + "a, " * 40 + "]",
    "a: [",
    "a: b\n---\nc: d",
    "",
)


def _composed(text: str) -> object:
    try:
        return _shape(compose.compose(text, "file.yaml"), set())
    except LbgenError as error:
        return error.diagnostics


def _shape(node: Node, around: set[int]) -> object:
    if isinstance(node, ScalarNode) or id(node) in around:
        return node.tag, node.start_mark.index, str(node.value) if isinstance(node, ScalarNode) else "itself"
    children = [each for item in node.value for each in (item if isinstance(item, tuple) else (item,))]
    return node.tag, node.start_mark.index, [_shape(each, {*around, id(node)}) for each in children]


@pytest.mark.parametrize("text", _TEXTS, ids=lambda text: repr(text[:20]))
def test_both_composers_agree(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "MOST_NODES", 30)
    fast = _composed(text)
    monkeypatch.setattr(compose, "_fast_composer", None)
    assert _composed(text) == fast


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml has one composer")
def test_topologies_take_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "_composer", None)
    assert isinstance(compose.compose("name: shop\nlisteners: {web: {port: 8080}}", "file.yaml"), Node)
