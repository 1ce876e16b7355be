"""Words of a topology -> names of nginx variables and named locations, each unique in the file."""

from __future__ import annotations

import re

from lbgen.engines.text import Atom

_ODD = re.compile(r"[^a-z0-9]+")
_LONGEST = 42  # with a number behind it still what fits nginx's own hash of variables


class Names:
    """Hands out variable names; the same words always give the same names in the same order."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def variable(self, kind: str, words: str) -> str:
        """`$kind_words` without the dollar, a number behind it when it is taken."""
        room = _LONGEST - len(kind) - 1
        tail = _ODD.sub("_", words.lower()).strip("_")[:room].strip("_")
        base = f"{kind}_{tail}" if tail else kind
        name = base
        while name in self._taken:
            self._taken[base] += 1
            name = f"{base}_{self._taken[base]}"
        self._taken[name] = 1
        return name


def reference(name: str) -> Atom:
    """A variable as a parameter of its own."""
    return Atom(f"${name}")


def inline(name: str) -> Atom:
    """A variable inside a text."""
    return Atom(f"${{{name}}}")


def named(route: str, what: str = "") -> Atom:
    """A named location of a route. A colon is in no route's name."""
    return Atom(f"@{route}:{what}" if what else f"@{route}")
