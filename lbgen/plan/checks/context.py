"""What every check reads, and where it adds its findings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from lbgen.diagnostics import Diagnostic, Severity
from lbgen.plan.expand import ExpandedTopology
from lbgen.spec.find_values import find_values
from lbgen.spec.listener import Listener
from lbgen.spec.load import Topology
from lbgen.spec.model import TopologyModel
from lbgen.spec.pydantic_errors import suggest

_MOST_NAMES = 12


class Context(Struct):
    """A topology with its routes expanded, and the findings so far in `found`."""

    topology: Topology
    expanded: ExpandedTopology
    found: list[Diagnostic] = field(default_factory=list)
    inherited: set[tuple[str, str]] = field(default_factory=set)  # findings about inherited fields: code, field

    @property
    def model(self) -> TopologyModel:
        return self.topology.model

    def values(self, kind: object) -> dict[str, Any]:
        """The values of one type (see `find_values`) by the field where each is written: those of listeners, pools,
        routes and the topology itself. What policies and defaults say is among them where it is inherited."""
        found = find_values(self.model, kind)
        unnamed = ("policies.", "defaults.")
        return {self.topology.marks.origin(field): value for field, value in found if not field.startswith(unnamed)}

    def users(self, pool: str) -> list[Listener]:
        """The listeners whose routes forward to that pool."""
        return [
            self.model.listeners[name]
            for index, route in enumerate(self.model.routes)
            if any(to.pool == pool for to in route.forward or ())
            for name in self.expanded.listeners[index]
        ]

    def add(
        self,
        code: str,
        field: str,
        message: str,
        hint: str = "",
        severity: Severity = Severity.ERROR,
        key: bool = False,
    ) -> None:
        """Add a finding about `field`, at its value, or with `key` at its key.

        What a route or pool inherits is found where it is written, once, with the name of the first that has it.
        """
        span, origin = self.topology.span(field, key=key), self.topology.marks.origin(field)
        if origin != field:
            if (code, origin) in self.inherited:
                return
            self.inherited.add((code, origin))
            message = f"{message}, on {self._owner(field)}"
        self.found.append(Diagnostic(code, message, span, origin, hint, severity))

    def _owner(self, field: str) -> str:
        """The route or pool that a field is of."""
        if (route := re.match(r"routes\[([0-9]+)\]", field)) is not None:
            return f'route "{self.model.routes[int(route[1])].name}"'
        return f'pool "{next(name for name in self.model.pools if field.startswith(f"pools.{name}."))}"'

    def advise(self, code: str, field: str, message: str, hint: str = "", *, key: bool = False) -> None:
        """Add advice about `field`."""
        self.add(code, field, message, hint, Severity.ADVICE, key)


def suggest_known(wrong: str, known: Iterable[str]) -> str:
    """A hint: the known name that is near, or all of them where they are few."""
    names = list(known)
    hint = suggest(wrong, names)
    return hint if hint.startswith("did you mean") or len(names) <= _MOST_NAMES else ""


def list_names(names: Iterable[str], most: int = 3) -> str:
    """`"a", "b" and 5 more`."""
    every = [f'"{name}"' for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
