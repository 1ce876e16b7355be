"""Changes of a topology that is loaded: on its nodes, so that what stays keeps its places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from yaml.nodes import Node, SequenceNode

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.layering import Layering, name_of, without_step
from lbgen.spec.marks import Marks, Step, entry
from lbgen.spec.source import Source, read_mapping

PLACE = "<edit>"  # of values that a program set
_Value = object


class Edit(Struct):
    """The nodes of a topology under change; `source` is the result."""

    file: str
    layering: Layering
    root: Node

    @classmethod
    def begin(cls, marks: Marks, variables: Mapping[str, str]) -> Edit:
        """The nodes of a topology."""
        return cls(marks.file, Layering(variables, dict(marks.replaced_values)), marks.root)

    def set(self, field: str, value: _Value) -> None:
        """Replace the value of a field; missing mappings are made. LbgenError LB135 when there is no such place."""
        self.root = self.layering.put(self.root, self._steps(field), self._node(value), PLACE)

    def put(self, steps: Sequence[Step], value: _Value) -> None:
        """As `set`, by the steps of the path; the step after a list's last element appends."""
        self.root = self.layering.put(self.root, steps, self._node(value), PLACE, append=True)

    def remove(self, field: str) -> None:
        """Remove a key or an element; LbgenError LB135 when it is not written."""
        steps = self._steps(field)
        left = without_step(self.root, steps)
        if left is None:
            hint = "it may come from the profile; set it to another value instead"
            raise LbgenError(Diagnostic("LB135", f'"{field}" is not written here', Span(PLACE), field, hint))
        self.root = left

    def route_index(self, name: object) -> int:
        """The place of the route of that name, or the end of the routes."""
        routes = entry(self.root, "routes")
        written = routes[1].value if routes is not None and isinstance(routes[1], SequenceNode) else []
        return next((i for i, each in enumerate(written) if name_of(each) == name), len(written))

    def source(self) -> Source:
        """The data of the changed nodes. LbgenError with the findings of the text."""
        return self.layering.build(self.root, self.file)

    def _steps(self, field: str) -> tuple[Step, ...]:
        steps = Marks(self.file, self.root).steps(field)
        if not steps:
            hint = "write the field as findings do, such as listeners.web.port or routes[api].forward"
            raise LbgenError(Diagnostic("LB135", f'"{field}" is not the path of a field', Span(PLACE), hint=hint))
        return steps

    def _node(self, value: _Value) -> Node:
        node: Node = read_mapping({"value": value}, PLACE).marks.root.value[0][1]
        return node
