"""What differs from route to route (a header's value, a new path) -> a few conditional lines, or one line and a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.statements import Line, line
from lbgen.engines.text import Literal
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.engines.haproxy.statements import Maps

_LINES = 4  # from this many different values on, one map lookup is cheaper than a list of conditions


@record
class Chooser:
    """Tells apart the routes of a listener by what `variable` holds. `every` are all values it can have where the lines
    stand, `everywhere` the condition that is true for all of them ("" = no condition is needed)."""

    maps: Maps
    variable: str
    every: frozenset[str]
    everywhere: str
    origins: dict[str, str]  # key -> topology field

    def when(self, keys: Sequence[str], purpose: str, *more: str | Literal) -> tuple[str | Literal, ...]:
        """`if ...`: the request's key is one of `keys`, and `more` holds."""
        mine = (
            self.everywhere if self.every <= set(keys) else self.maps.among(self.variable, keys, purpose, self.origins)
        )
        conditions = [c for c in (mine, *more) if c]
        return ("if", *conditions) if conditions else ()

    def only(self, action: tuple[str | Literal, ...], keys: Sequence[str], purpose: str, *more: str | Literal) -> Line:
        """`action` for these keys."""
        return line(self._origin(keys), *action, *self.when(keys, purpose, *more))

    def valued(
        self,
        action: tuple[str | Literal, ...],
        values: Mapping[str, str],
        purpose: str,
        *more: str | Literal,
        suffix: str | Sample = "",
    ) -> list[Line]:
        """`action VALUE`, where the value depends on the key; `suffix` follows every value."""
        groups: dict[str, list[str]] = {}
        for key, value in values.items():
            groups.setdefault(value, []).append(key)
        if len(groups) < _LINES:
            return [
                line(
                    self._origin(keys),
                    *action,
                    Literal(log_format(value, *_parts(suffix))),
                    *self.when(keys, f"{purpose}.{number}", *more),
                )
                for number, (value, keys) in enumerate(groups.items(), 1)
            ]
        mapped = self.maps.file(f"{purpose}.map", f"value of {self.variable} -> {purpose}")
        for key, value in values.items():
            mapped.add(key, value, self.origins.get(key, ""))
        value = f"var({self.variable}),map_str({mapped.name})"
        action = (*action, Literal(log_format(Sample(value), *_parts(suffix))))
        return [line(self._origin(list(values)), *action, "if", f"{{ {value} -m found }}", *more)]

    def _origin(self, keys: Sequence[str]) -> str:
        return self.origins.get(keys[0], "") if keys else ""


def _parts(suffix: str | Sample) -> tuple[str | Sample, ...]:
    if isinstance(suffix, Sample):
        return ("/", suffix)
    return (suffix,) if suffix else ()
