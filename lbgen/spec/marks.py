"""Finds the place where a field such as `routes[2].retries.max` is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lbgen.diagnostics import Span
from lbgen.spec.compose import span_of

Step = str | int
_Keys = dict[str, tuple[Node, Node]]


def field_path(steps: Iterable[Step]) -> str:
    """`("routes", 2, "name")` as `routes[2].name`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def origin(node: Node) -> tuple[str, int]:
    """The file that a node is from, and its place there, which no other scalar has."""
    return node.start_mark.name, node.start_mark.index


class Marks(Struct, eq=False):
    """The places of every key and value; `file` is the only or the first one. `replaced_values` are those of scalars
    that refer to variables, by their origin."""

    file: str
    root: Node
    replaced_values: dict[tuple[str, int], str] = field(default_factory=dict)
    _keys: dict[int, _Keys] = field(default_factory=dict)

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where the value of `path` stands (its key with `key`); the nearest thing around it when it is not there."""
        return self.find(path, key=key)[0]

    def find(self, path: str, *, key: bool = False) -> tuple[Span, bool]:
        """Like `span`, and whether the path is written in this file."""
        node, key_node, rest = self._descend(path)
        shown = key_node if key and key_node is not None and not rest else node
        return span_of(shown), not rest

    def find_value(self, path: str) -> tuple[Span, bool]:
        """Like `find`; a value that is written short, such as `forward: app`, is also each value that it stands for."""
        node, _, rest = self._descend(path)
        return span_of(node), not rest or isinstance(node, ScalarNode)

    def written(self, path: str) -> str | None:
        """The scalar at `path` as it is written, without quotes; None when there is none."""
        node, _, rest = self._descend(path)
        return str(node.value) if isinstance(node, ScalarNode) and not rest else None

    def replaced(self, path: str) -> tuple[str, str] | None:
        """The value and the text of the scalar at `path` where it refers to variables."""
        node, _, rest = self._descend(path)
        value = self.replaced_values.get(origin(node)) if isinstance(node, ScalarNode) and not rest else None
        return None if value is None else (value, str(node.value))

    def steps(self, path: str) -> tuple[Step, ...] | None:
        """The steps of a path that a user wrote; the last ones need not be there. `routes[api]` is the route of that
        name. None when it is no path."""
        node: Node | None = self.root
        steps: list[Step] = []
        while path:
            path = path.removeprefix(".") if steps else path
            if path.startswith("["):
                inside, bracket, path = path[1:].partition("]")
                if not bracket or not inside or not steps:
                    return None
                steps.append(int(inside) if inside.isdecimal() else _index_of(node, inside))
                held = node.value if isinstance(node, SequenceNode) else []
                node = held[steps[-1]] if steps[-1] < len(held) else None  # type: ignore[operator,index]  # a number
                continue
            best = self._step(node, path) if isinstance(node, MappingNode) else None
            if best is not None:
                key, node, rest = best
                steps.append(str(key.value))
                path = rest
                continue
            name = re.split(r"[.\[]", path, maxsplit=1)[0]
            if not name:
                return None
            steps.append(name)
            node, path = None, path[len(name) :]
            if path == ".":
                return None
        return tuple(steps)

    def _descend(self, path: str) -> tuple[Node, Node | None, str]:
        """The deepest node on `path`, its key, and what of the path is left."""
        node, key_node = self.root, None
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
        keys = self._entries(node)
        ends = [i for i, char in enumerate(path) if char in ".["]
        for end in (len(path), *reversed(ends)):
            if found := keys.get(path[:end]):
                return (*found, path[end:])
        return None

    def _entries(self, node: MappingNode) -> _Keys:
        """The entries of `node` by key."""
        if id(node) not in self._keys:
            self._keys[id(node)] = {k.value: (k, v) for k, v in reversed(node.value) if isinstance(k, ScalarNode)}
        return self._keys[id(node)]


def entry(node: Node, name: str) -> tuple[Node, Node] | None:
    """The key and the value of that name in a mapping; None when there is none."""
    if not isinstance(node, MappingNode):
        return None
    return next(((k, v) for k, v in node.value if isinstance(k, ScalarNode) and k.value == name), None)


def _index_of(node: Node | None, name: str) -> int:
    """The index of the element with that name, or of that pool; one past the end when there is none."""
    items = node.value if isinstance(node, SequenceNode) else []
    for index, item in enumerate(items):
        named = (entry(item, key) for key in ("name", "pool"))
        if any(found is not None and found[1].value == name for found in named):
            return index
    return len(items)


class Layers(Struct):
    """The marks of a topology and of the profile under it. `origins` are the fields of routes and pools that are
    inherited, or parts of them, and the fields of a policy or of defaults that say so."""

    top: Marks
    under: Marks | None = None
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, path: str) -> str:
        """The field that says what `path` says: itself, or one of a policy or of defaults."""
        end = len(path) if self.origins else 0
        while end > 0:
            if (found := self.origins.get(path[:end])) is not None:
                return found + path[end:]
            end = max(path.rfind(".", 0, end), path.rfind("[", 0, end))
        return path

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where `path` is written: in the topology, else in the profile, else what is nearest in the topology."""
        path = self.origin(path)
        span, written = self.top.find(path, key=key)
        if not written and self.under is not None:
            lower, written = self.under.find(path, key=key)
            if written:
                return lower
        return span

    def wrote(self, path: str) -> bool:
        """Whether `path` is written in the topology itself."""
        return self.top.find(self.origin(path))[1]

    def written(self, path: str) -> str | None:
        """The scalar at `path` as it is written, without quotes; None when there is none."""
        return self._of(path).written(path)

    def has_variables(self) -> bool:
        return any(marks is not None and marks.replaced_values for marks in (self.top, self.under))

    def replaced(self, path: str) -> tuple[str, str] | None:
        """The value and the text of the scalar at `path` where it refers to variables."""
        return self._of(path).replaced(path)

    def _of(self, path: str) -> Marks:
        return self.top if self.under is None or self.wrote(path) else self.under
