"""Puts several files and settings together into one topology, before any value is read."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.compose import COLLECTION, TEXT, compose, span_of
from lbgen.spec.marks import Marks, Step, entry
from lbgen.spec.source import Source, build, note_read, read_nodes
from lbgen.spec.value_errors import shorten

INCLUDE = "include"
INCLUDED_KEYS = ("pools", "routes", "policies")
MOST_FILES = 1_000


class Document(Struct, frozen=True):
    """One YAML file: its name in messages, the folder that its includes begin at, and its nodes."""

    file: str
    base: Path
    root: Node


class Layering(Struct):
    """Merges documents, lowest first. Mappings merge, `routes` merge by name, other lists replace."""

    variables: Mapping[str, str]
    replaced_values: dict[tuple[str, int], str] = field(default_factory=dict)

    def merge(self, documents: Sequence[Document], settings: Sequence[tuple[str, str]] = ()) -> Source:
        """The data of the documents with their includes, then of settings, pairs of field and YAML text.
        Raises LbgenError with the findings of the text."""
        first = documents[0]
        merged = self._expand(first)
        for each in documents[1:]:
            merged = _merge(merged, self._expand(each))
        for path, text in settings:
            merged = self._set(merged, path, text, first.file)
        return self.build(merged, first.file)

    def build(self, root: Node, file: str) -> Source:
        """The data of nodes whose first file is `file`. Raises LbgenError with the findings of the text."""
        return build(root, Marks(file, root, self.replaced_values), self.variables)

    def _expand(self, document: Document) -> Node:
        """The document's nodes with the routes, pools and policies of the files that it includes."""
        root = document.root
        including = entry(root, INCLUDE)
        if including is None or not isinstance(root, MappingNode):
            return root
        patterns = self._patterns(including[1], document)
        if patterns is None:
            return root
        kept = [(key, value) for key, value in root.value if key is not including[0]]
        merged: Node = _mapping_like(root, kept)
        for path in self._files(patterns, document):
            included = Document(str(path), path.parent, read_nodes(path))
            merged = self._include(merged, included)
        return merged

    def _patterns(self, node: Node, document: Document) -> list[tuple[str, Span]] | None:
        """The patterns of files with their places; None where `include` is no list of texts: the model reports that."""
        patterns = self.build(node, document.file).data
        if not isinstance(node, SequenceNode) or not all(isinstance(each, str) for each in patterns):
            return None
        return [(text, span_of(item)) for text, item in zip(patterns, node.value, strict=True)]

    def _files(self, patterns: Iterable[tuple[str, Span]], document: Document) -> list[Path]:
        """The files that the patterns name, in the order of patterns and then of names, each once."""
        found: dict[Path, None] = {}
        for pattern, span in patterns:
            # Path.glob does not take absolute patterns.
            names = sorted(glob.glob(pattern, root_dir=document.base, recursive=True))  # noqa: PTH207
            if not names:
                message = f'no file matches "{shorten(pattern)}"'
                hint = "relative paths start at the folder of the file that includes"
                raise LbgenError(Diagnostic("LB110", message, span, INCLUDE, hint))
            found |= dict.fromkeys(document.base / name for name in names)
            for name in names:
                note_read((document.base / name).parent)
            if len(found) > MOST_FILES:
                raise LbgenError(Diagnostic("LB108", f"more than {MOST_FILES} files are included", span, INCLUDE))
        return list(found)

    def _include(self, root: Node, included: Document) -> Node:
        """`root` with the routes, pools and policies of `included` after its own."""
        if not isinstance(included.root, MappingNode):
            message = "not a mapping where routes, pools and policies are expected"
            raise LbgenError(Diagnostic("LB134", message, span_of(included.root)))
        for key, value in included.root.value:
            if not isinstance(key, ScalarNode) or key.value not in INCLUDED_KEYS:
                message = "an included file holds routes, pools and policies only"
                hint = "move the key into the topology, or give the file with -f"
                raise LbgenError(Diagnostic("LB134", message, span_of(key), str(key.value), hint))
            root = _append(root, key, value)
        return root

    def _set(self, root: Node, path: str, text: str, file: str) -> Node:
        """`root` with the value of one field replaced. Raises LbgenError LB135 when there is no such place."""
        name = f"--set {path}"
        try:
            value = compose(text, name)
        except LbgenError as error:
            unplaced = [replace(each, span=Span(name)) for each in error.diagnostics]
            raise LbgenError(unplaced) from None
        steps = Marks(file, root).steps(path)
        if not steps:
            hint = "write the field as findings do, such as listeners.web.port=8081 or routes[api].forward=app"
            raise LbgenError(Diagnostic("LB135", "not the path of a field", Span(name), hint=hint))
        return self.put(root, steps, value, name)

    def put(self, node: Node, steps: Sequence[Step], value: Node, name: str, *, append: bool = False) -> Node:
        """A copy of `node` with `value` at `steps`; missing mappings are made. Aliases of `node` stay as they are.
        `name` is the place of what is made. With `append` the step after a list's last element adds one."""
        if not steps:
            return value
        step, rest = steps[0], steps[1:]
        if isinstance(step, int):
            adds = append and isinstance(node, SequenceNode) and step == len(node.value) and not rest
            if not isinstance(node, SequenceNode) or (step >= len(node.value) and not adds):
                raise LbgenError(Diagnostic("LB135", f"the list has no element {step}", Span(name)))
            items = [self.put(x, rest, value, name) if i == step else x for i, x in enumerate(node.value)]
            items += [value] if adds else []
            return SequenceNode(COLLECTION, items, node.start_mark, node.end_mark)
        if not isinstance(node, MappingNode):
            message = f'"{shorten(step)}" is no field of a {"list" if isinstance(node, SequenceNode) else "value"}'
            raise LbgenError(Diagnostic("LB135", message, Span(name), hint="name an element, such as routes[0]"))
        found = entry(node, step)
        if found is not None:
            inner = self.put(found[1], rest, value, name, append=append)
            return _mapping_like(node, [(k, inner if k is found[0] else v) for k, v in node.value])
        key = ScalarNode(TEXT, step, value.start_mark, value.end_mark)
        kind = SequenceNode if rest and isinstance(rest[0], int) else MappingNode
        empty = kind(COLLECTION, [], value.start_mark, value.end_mark)
        inner = self.put(empty, rest, value, name, append=append) if rest else value
        return _mapping_like(node, [*node.value, (key, inner)])


def without_step(node: Node, steps: Sequence[Step]) -> Node | None:
    """A copy of `node` without the key or element at `steps`; None when there is none."""
    step, rest = steps[0], steps[1:]
    kept: list[Any] = []
    if isinstance(step, int) and isinstance(node, SequenceNode) and step < len(node.value):
        kept = [x for i, x in enumerate(node.value) if i != step]
        if rest:
            inner = without_step(node.value[step], rest)
            kept = [inner if i == step else x for i, x in enumerate(node.value)]
            if inner is None:
                return None
        return SequenceNode(COLLECTION, kept, node.start_mark, node.end_mark)
    found = entry(node, step) if isinstance(step, str) else None
    if found is None or not isinstance(node, MappingNode):
        return None
    kept = [pair for pair in node.value if pair[0] is not found[0]]
    if rest:
        inner = without_step(found[1], rest)
        if inner is None:
            return None
        kept = [(k, inner if k is found[0] else v) for k, v in node.value]
    return _mapping_like(node, kept)


def _mapping_like(node: Node, entries: list[tuple[Node, Node]]) -> MappingNode:
    return MappingNode(COLLECTION, entries, node.start_mark, node.end_mark)


def _merge(lower: Node, upper: Node, *, top: bool = True) -> Node:
    """Mappings merge; of the top level's `routes` those of one name merge; all else of `upper` replaces."""
    if not isinstance(lower, MappingNode) or not isinstance(upper, MappingNode):
        return upper
    entries = list(lower.value)
    index = {key.value: i for i, (key, _) in enumerate(entries) if isinstance(key, ScalarNode)}
    taken: set[str] = set()
    for key, value in upper.value:
        name = str(key.value) if isinstance(key, ScalarNode) else ""
        if name in index and name not in taken:
            below = entries[index[name]][1]
            if top and name == "routes" and isinstance(below, SequenceNode) and isinstance(value, SequenceNode):
                entries[index[name]] = (key, _merge_named(below, value))
            else:
                entries[index[name]] = (key, _merge(below, value, top=False))
            taken.add(name)
        else:  # a key that is written twice stays so, and is a finding
            entries.append((key, value))
    return _mapping_like(upper, entries)


def _merge_named(lower: SequenceNode, upper: SequenceNode) -> Node:
    """The elements of both; those of `upper` that have the name of one of `lower` are merged into it."""
    items = list(lower.value)
    index = {name: i for i, item in enumerate(items) if (name := name_of(item)) is not None}
    taken: set[str] = set()
    for item in upper.value:
        name = name_of(item)
        if name is not None and name in index and name not in taken:
            items[index[name]] = _merge(items[index[name]], item, top=False)
            taken.add(name)
        else:
            items.append(item)
    return SequenceNode(COLLECTION, items, upper.start_mark, upper.end_mark)


def name_of(node: Node) -> str | None:
    """The `name` of an element of a list; None when it has none."""
    found = entry(node, "name")
    return str(found[1].value) if found is not None and isinstance(found[1], ScalarNode) else None


def _append(root: Node, key: Node, value: Node) -> Node:
    """`root` with the entries of one key of an included file after its own. A pool of a name that is taken stays there
    twice, and is a finding; so is a value of another kind."""
    own = entry(root, key.value)
    if own is None:
        return _mapping_like(root, [*root.value, (key, value)])
    same = type(own[1]) is type(value) and not isinstance(value, ScalarNode)
    if not same:
        return _mapping_like(root, [*root.value, (key, value)])
    joined = type(value)(COLLECTION, [*own[1].value, *value.value], own[1].start_mark, own[1].end_mark)
    return _mapping_like(root, [(k, joined if k is own[0] else v) for k, v in root.value])
