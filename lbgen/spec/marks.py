"""Finds the place where a field such as `routes[2].retries.max` is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lbgen.diagnostics import Span

Step = str | int
_Keys = dict[str, tuple[Node, Node]]
_Found = tuple[Node, Node | None, str]


def field_path(steps: Iterable[Step]) -> str:
    """`("routes", 2, "name")` as `routes[2].name`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Places(Struct):
    """What nodes do not say themselves: the file of those that are not from the first one, and replaced values."""

    files: dict[int, str] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)  # of the scalars that refer to variables
    _without_lines: set[str] = field(default_factory=set)
    _nodes: list[Node] = field(default_factory=list)  # keeps them, as their ids stand for them

    def copy(self) -> Places:
        """The same places; what is added to the copy is not added here."""
        return Places(dict(self.files), dict(self.values), set(self._without_lines), list(self._nodes))

    def add(self, root: Node, file: str, *, lines: bool = True) -> None:
        """Every node under `root` is from `file`; `lines` False: a place there has no line."""
        self._nodes.append(root)
        if not lines:
            self._without_lines.add(file)
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in self.files:
                continue
            self.files[id(node)] = file
            if isinstance(node, SequenceNode):
                waiting.extend(node.value)
            elif isinstance(node, MappingNode):
                waiting.extend(each for entry in node.value for each in entry)

    def span(self, node: Node, first: str) -> Span:
        """Where `node` begins; `first` is the file of the nodes that were not added."""
        file = self.files.get(id(node), first)
        if file in self._without_lines:
            return Span(file)
        return Span(file, node.start_mark.line + 1, node.start_mark.column + 1)


class Marks(Struct, eq=False):
    """The places of every key and value; `file` is the only or the first one. `root` None: there are no places, only
    Python `data`."""

    file: str
    root: Node | None = None
    data: object = None
    places: Places = field(default_factory=Places)
    _keys: dict[int, _Keys] = field(default_factory=dict)

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where the value of `path` stands (its key with `key`); the nearest thing around it when it is not there."""
        return self.find(path, key=key)[0]

    def find(self, path: str, *, key: bool = False) -> tuple[Span, bool]:
        """Like `span`, and whether the path is written in this file."""
        if self.root is None:
            return Span(self.file), _holds(self.data, path)
        node, key_node, rest = self._descend(self.root, None, path)
        shown = key_node if key and key_node is not None and not rest else node
        return self.span_of(shown), not rest

    def find_value(self, path: str) -> tuple[Span, bool]:
        """Like `find`; a value that is written short, such as `forward: app`, is also each value that it stands for."""
        if self.root is None:
            return self.find(path)
        node, _, rest = self._descend(self.root, None, path)
        return self.span_of(node), not rest or isinstance(node, ScalarNode)

    def span_of(self, node: Node) -> Span:
        """The place where `node` begins."""
        return self.places.span(node, self.file)

    def written(self, path: str) -> str | None:
        """The scalar at `path` as it is written, without quotes; None when there is none."""
        if self.root is None:
            return None
        node, _, rest = self._descend(self.root, None, path)
        return str(node.value) if isinstance(node, ScalarNode) and not rest else None

    def replaced(self, path: str) -> tuple[str, str] | None:
        """The value and the text of the scalar at `path` where it refers to variables."""
        if self.root is None:
            return None
        node, _, rest = self._descend(self.root, None, path)
        return (self.places.values[id(node)], str(node.value)) if not rest and id(node) in self.places.values else None

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


def _index_of(node: Node | None, name: str) -> int:
    """The index of the element with that name, or of that pool; one past the end when there is none."""
    items = node.value if isinstance(node, SequenceNode) else []
    for index, item in enumerate(items):
        if isinstance(item, MappingNode) and any(
            isinstance(value, ScalarNode) and value.value == name
            for key, value in item.value
            if isinstance(key, ScalarNode) and key.value in ("name", "pool")
        ):
            return index
    return len(items)


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


class Layers(Struct):
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
        return self._of(path).written(path)

    def has_variables(self) -> bool:
        return any(marks is not None and marks.places.values for marks in (self.top, self.under))

    def replaced(self, path: str) -> tuple[str, str] | None:
        """The value and the text of the scalar at `path` where it refers to variables."""
        return self._of(path).replaced(path)

    def _of(self, path: str) -> Marks:
        return self.top if self.under is None or self.wrote(path) else self.under
