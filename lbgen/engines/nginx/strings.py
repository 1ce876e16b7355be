"""Free text and variables -> one nginx parameter, by way of constants where it is longer than nginx can read."""

from __future__ import annotations

from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.quote import LONGEST, pieces, size
from lbgen.engines.nginx.quote import bare as is_bare
from lbgen.engines.nginx.view import NONE, Map, Text
from lbgen.engines.text import Atom, Literal


def text(*parts: str | Atom) -> Text:
    """Strings are free text, atoms are variables. ValueError for a `$`, which needs the constant of `Texts`."""
    if any(isinstance(part, str) and "$" in part for part in parts):
        raise ValueError(f"{parts!r} holds a dollar sign")
    return _text([Literal(part, "part") if isinstance(part, str) else part for part in parts])


def _text(parts: list[Atom | Literal]) -> Text:
    bare = None
    if len(parts) == 1:
        only = parts[0]
        if isinstance(only, Atom):
            bare = Atom(only.text.replace("{", "").replace("}", ""))
        elif is_bare(only.text):
            bare = Atom(only.text)
    return Text(tuple(parts), bare)


EMPTY = Text(())


class Texts:
    """Makes parameters and collects the constants they need."""

    def __init__(self) -> None:
        self.constants: list[Map] = []
        self.dollar = False
        self._nothing: Atom | None = None

    def of(self, *parts: str | Atom) -> Text:
        """A parameter that nginx can read whatever its length."""
        cut = [Literal(p, "part") if isinstance(p, str) else p for part in parts for p in _cut(part)]
        self.dollar = self.dollar or any(isinstance(p, Literal) and "$" in p.text for p in cut)
        while sum(map(_size, cut)) > LONGEST:
            cut = self._folded(cut)
        return _text(cut)

    def body(self, content: str) -> Text:
        """The text of a `return`. One that is empty by itself would make nginx write a page of its own."""
        if content:
            return self.of(content)
        if self._nothing is None:
            self._nothing = self._constant([])
        return text(self._nothing)

    def _folded(self, parts: list[Atom | Literal]) -> list[Atom | Literal]:
        """The same text in fewer parts: each run that fits becomes a constant."""
        out: list[Atom | Literal] = []
        run: list[Atom | Literal] = []
        used = 0
        for part in parts:
            if run and used + _size(part) > LONGEST:
                out.append(self._constant(run))
                run, used = [], 0
            run.append(part)
            used += _size(part)
        out.append(self._constant(run))
        return out

    def _constant(self, run: list[Atom | Literal]) -> Atom:
        name = f"text_{len(self.constants) + 1}"
        self.constants.append(Map(NONE, EMPTY, Atom(f"${name}"), Text(tuple(run)), ()))
        return inline(name)


def _cut(part: str | Atom) -> tuple[str | Atom, ...]:
    return pieces(part) if isinstance(part, str) else (part,)


def _size(part: Atom | Literal) -> int:
    return size(part.text) if isinstance(part, Literal) else len(part.text)
