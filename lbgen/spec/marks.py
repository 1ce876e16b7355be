"""Finds the place where a field such as `routes[2].retries.max` is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lbgen.diagnostics import Span

Step = str | int
_Keys = dict[str, tuple[Node, Node]]
_Found = tuple[Node, Node | None, str]
_FIRST = re.compile(r"[^.\[]*")


def field_path(steps: Iterable[Step]) -> str:
    """`("routes", 2, "name")` as `routes[2].name`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(slots=True)
class Marks:
    """The places of every key and value of one file; `root` None: there are none, only Python `data`."""

    file: str
    root: Node | None = None
    data: object = None
    _keys: dict[int, tuple[_Keys, bool]] = field(default_factory=dict, repr=False)
    _elements: dict[str, _Found] = field(default_factory=dict, repr=False)

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where the value of `path` stands (its key with `key`); the nearest thing around it when it is not there."""
        return self.find(path, key=key)[0]

    def find(self, path: str, *, key: bool = False) -> tuple[Span, bool]:
        """Like `span`, and whether the path is written in this file."""
        if self.root is None:
            return Span(self.file), _holds(self.data, path)
        node, key_node, rest = self._look(self.root, path)
        shown = key_node if key and key_node is not None and not rest else node
        return self.span_of(shown), not rest

    def span_of(self, node: Node) -> Span:
        """The place where `node` begins."""
        return Span(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def written(self, path: str) -> str | None:
        """The scalar at `path` as it is written, without quotes; None when there is none."""
        if self.root is None:
            return None
        node, _, rest = self._look(self.root, path)
        return str(node.value) if isinstance(node, ScalarNode) and not rest else None

    def _look(self, root: Node, path: str) -> _Found:
        """As `_descend` from the top; elements of its lists, such as `routes[2]`, are looked for once."""
        head, bracket, rest = path.partition("]")
        if not bracket or "." in head or not isinstance(root, MappingNode) or not self._entries(root)[1]:
            return self._descend(root, None, path)
        if head not in self._elements:
            self._elements[head] = self._descend(root, None, head + bracket)
        node, key_node, missing = self._elements[head]
        return (node, key_node, missing + rest) if missing else self._descend(node, key_node, rest)

    def _descend(self, node: Node, key_node: Node | None, path: str) -> _Found:
        """The deepest node on `path`, its key, and what of the path is left."""
        while path:
            if path[0] == "[" and isinstance(node, SequenceNode):
                index, _, rest = path[1:].partition("]")
                if not index.isdecimal() or int(index) >= len(node.value):
                    break
                node, key_node, path = node.value[int(index)], None, rest
            elif path[0] != "[" and isinstance(node, MappingNode):
                best = self._step(node, path[1:] if path[0] == "." else path)
                if best is None:
                    break
                key_node, node, path = best
            else:
                break
        return node, key_node, path

    def _step(self, node: MappingNode, path: str) -> tuple[Node, Node, str] | None:
        """The entry of `node` that `path` begins with; names may hold dots, so the longest fitting key wins."""
        keys, plain = self._entries(node)
        if plain:
            first = _FIRST.match(path)
            name = first[0] if first else path
            entry = keys.get(name)
            return (*entry, path[len(name) :]) if entry else None
        ends = [i for i, char in enumerate(path) if char in ".["]
        for end in (len(path), *reversed(ends)):
            if found := keys.get(path[:end]):
                return (*found, path[end:])
        return None

    def _entries(self, node: MappingNode) -> tuple[_Keys, bool]:
        """The entries of `node` by key, and whether no key holds a dot or bracket."""
        if id(node) not in self._keys:
            keys: _Keys = {k.value: (k, v) for k, v in reversed(node.value) if isinstance(k, ScalarNode)}
            self._keys[id(node)] = keys, not any("." in key or "[" in key for key in keys)
        return self._keys[id(node)]


def _holds(data: object, path: str) -> bool:
    """Whether plain data has a value at `path`."""
    if not path:
        return True
    if isinstance(data, list):
        index, _, rest = path[1:].partition("]")
        return path[0] == "[" and index.isdecimal() and int(index) < len(data) and _holds(data[int(index)], rest)
    path = path.removeprefix(".")
    ends = [i for i, char in enumerate(path) if char in ".["]
    return isinstance(data, dict) and any(
        path[:end] in data and _holds(data[path[:end]], path[end:]) for end in (len(path), *reversed(ends))
    )


@dataclass(slots=True)
class Layers:
    """The marks of a topology and of the profile under it."""

    top: Marks
    under: Marks | None = None

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where `path` is written: in the topology, else in the profile, else what is nearest in the topology."""
        span, written = self.top.find(path, key=key)
        if not written and self.under is not None:
            lower, written = self.under.find(path, key=key)
            if written:
                return lower
        return span

    def wrote(self, path: str) -> bool:
        """Whether `path` is written in the topology itself."""
        return self.top.find(path)[1]

    def written(self, path: str) -> str | None:
        """The scalar at `path` as it is written, without quotes; None when there is none."""
        if self.under is None or self.wrote(path):
            return self.top.written(path)
        return self.under.written(path)
