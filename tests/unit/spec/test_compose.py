"""The composer on libyaml and that on PyYAML's parser in Python give the same nodes and findings."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest
import yaml
from yaml.nodes import Node, ScalarNode

from lbgen.diagnostics import LbgenError
from lbgen.spec import compose
from lbgen.spec.compose import DEEPEST

if TYPE_CHECKING:
    from types import ModuleType

_DEEP = DEEPEST - 1
_TEXTS = (
    "name: shop",
    "a: [b, {c: d, 'e': \"f\"}]\ng: |\n  text\n",
    "a: &x {b: c}\nd: *x",
    "a: &x [*x]",
    f"{'[' * _DEEP}a{']' * _DEEP}",
    f"{'[' * DEEPEST}{']' * DEEPEST}",
    f"{'[' * DEEPEST}a{']' * DEEPEST}",
    "- " * 100 + "x",
    "? " * 100 + "x",
    "\n".join(f"{' ' * n}a:" for n in range(1000)),
    "[" * 900,
    "!!seq [" * 1000,
    "[" + "a, " * 40 + "]",
    "a: b\n---\nc: d",
    "",
)


@pytest.fixture(scope="module")
def in_python() -> ModuleType:
    """The module as it is where PyYAML comes without libyaml."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", False)
        spec = spec_from_file_location("compose_in_python", compose.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _composed(module: ModuleType, text: str) -> object:
    try:
        return _shape(module.compose(text, "file.yaml"), set())
    except LbgenError as error:
        return error.diagnostics


def _shape(node: Node, around: set[int]) -> object:
    if isinstance(node, ScalarNode) or id(node) in around:
        return node.tag, node.start_mark.index, str(node.value) if isinstance(node, ScalarNode) else "itself"
    children = [each for item in node.value for each in (item if isinstance(item, tuple) else (item,))]
    return node.tag, node.start_mark.index, [_shape(each, {*around, id(node)}) for each in children]


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml has one composer")
@pytest.mark.parametrize("text", _TEXTS, ids=lambda text: repr(text[:20]))
def test_both_composers_agree(text: str, in_python: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compose, in_python):
        monkeypatch.setattr(module, "MOST_NODES", 30)
    assert _composed(in_python, text) == _composed(compose, text)
