"""Places of many fields, found when one is first asked for: a plan has tens of thousands, few commands print any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from lbgen.diagnostics import Span

Found = Iterable[tuple[str, Span]]


class Spans:
    """Pairs of a field and its place; `find` is called once at most. Any two are equal: plans say the same wherever
    they say it."""

    def __init__(self, find: Callable[[], Found] = tuple, origin: Callable[[str], str] = str) -> None:
        self._find = find
        self._origin = origin

    @classmethod
    def of(cls, found: Found) -> Spans:
        """Places that are at hand."""
        return cls(lambda: found)

    def origin(self, field: str) -> str:
        """The field that says what `field` says: itself, or one that a route or pool inherits."""
        return self._origin(field)

    @cached_property
    def _by_field(self) -> dict[str, Span]:
        return dict(self._find())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans)

    def __hash__(self) -> int:
        return hash(Spans)

    def __iter__(self) -> Iterator[tuple[str, Span]]:
        return iter(self._by_field.items())

    def get(self, field: str) -> Span | None:
        """The place of a field; None for one that is not among them."""
        return self._by_field.get(field)

    def __reduce__(self) -> tuple[Callable[[Found], Spans], tuple[Found]]:
        return Spans.of, (tuple(self),)
