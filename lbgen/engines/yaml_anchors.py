"""Collections that a YAML document holds more than once, and names for their anchors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORTH_OF_NAMED = 40  # characters of a collection that a field of the topology makes and names, such as a route
_TIME = re.compile(r'"?[0-9.]+(?:ms|[smh])"?')
_TIME_STARTS = frozenset('"0123456789.')
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def measure(scalar: str) -> int:
    """How many characters count: as many for each time, so that plans whose times alone differ have the same lines."""
    return 8 if scalar[:1] in _TIME_STARTS and _TIME.fullmatch(scalar) else len(scalar)


def find_repeats(data: object, worth: int) -> Mapping[int, str]:
    """Anchor names of the collections of more than `worth` characters that are written more than once, by identity:
    equal ones have the same name."""
    repeats = _Repeats(worth)
    repeats.number(data)
    repeats.count(data, "")
    return {identity: repeats.names[number] for identity, number in repeats.numbers.items() if number in repeats.names}


class _Repeats:
    """`numbers`: the same for equal collections, by identity. `names`: of those that repeat, by number."""

    def __init__(self, worth: int) -> None:
        self.numbers: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self._worth = worth
        self._equal: dict[object, int] = {}
        self._sizes: list[int] = []
        self._seen: dict[int, str] = {}
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def number(self, data: object) -> tuple[object, int]:
        """A key that equal data share, and how many characters they have, about."""
        size = 0
        if isinstance(data, dict):
            parts: list[object] = [dict, getattr(data, "field", "")]
            part: object
            for name, value in data.items():
                if type(value) is str:  # most are texts, and few of them times
                    part, each = value, measure(value) if value[:1] in _TIME_STARTS else len(value)
                else:
                    part, each = self.number(value)
                parts += (name, part)
                size += len(name) + each
        elif isinstance(data, list | tuple):
            parts = [list]
            for value in data:
                part, each = self.number(value)
                parts.append(part)
                size += each
        elif isinstance(data, str):
            return data, measure(data)
        elif isinstance(data, Commented):
            return self.number(data.value)
        else:
            return (type(data), data), measure(str(data))
        number = self._equal.setdefault(tuple(parts), len(self._equal))
        if number == len(self._sizes):
            self._sizes.append(size)
        self.numbers[id(data)] = number
        return number, size

    def count(self, data: object, name: str) -> None:
        """Names what is written again after its first place; what is in it is not."""
        if isinstance(data, Commented):
            data = data.value
        if not isinstance(data, dict | list | tuple):
            return
        number = self.numbers[id(data)]
        own = data.get("name") if isinstance(data, dict) else None
        size = self._sizes[number]
        if size <= self._worth and (size <= _WORTH_OF_NAMED or type(data) is not Tagged or not own):
            return  # what is in it is not worth more
        name = own if isinstance(own, str) else name
        if number in self._seen:
            if number not in self.names:
                first = self._seen[number].rpartition(".v3.")[2]
                self.names[number] = self._unused(_UNSAFE.sub("-", first).strip("-") or "shared")
            return
        self._seen[number] = name
        if size <= self._worth:
            return
        for key, value in data.items() if isinstance(data, dict) else ((name, each) for each in data):
            if not isinstance(value, str):
                self.count(value, key)

    def _unused(self, name: str) -> str:
        found, n = name, self._next.get(name, 2)
        while found in self._taken:
            found, n = f"{name}-{n}", n + 1
        self._next[name] = n  # the next search starts here
        self._taken.add(found)
        return found
