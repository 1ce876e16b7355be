"""What the http block or the stream block defines for its servers: variables by maps, geo blocks and splits; zones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum

from lbgen.engines.nginx.names import Names, inline, reference
from lbgen.engines.nginx.statements import NONE, Defined, Entry, Geo, Line, Map, Split, Text
from lbgen.engines.nginx.strings import EMPTY, MAX_LENGTH, joined, pieces, size, text
from lbgen.engines.text import Atom, Literal

Section = Enum(
    "Section", "TRUST PATHS HEADS L4 ACCESS CONSTANTS VALUES LOG CLIENTS LIMITS TARGETS STICKY CORS MIRRORS RULES"
)
"""The order of what is defined; within a section it is that of first use. The first three are for every request."""
COMMON = (Section.TRUST, Section.PATHS, Section.HEADS)
_OTHERS = tuple(each for each in Section if each not in COMMON)
_NOTES = {
    Section.LOG: ("The pool of a route, for the access log.",),
    Section.TARGETS: ("New targets, of the raw path, since nginx would decode it; headers of shares.",),
    Section.RULES: ("Rules that share a location: the first that matches names its own.",),
}


class Definitions:
    """Features add to it while routes and upstreams are rendered, whichever needs a variable first; the block has all
    of it once. Long texts become constants, since nginx limits the length of a parameter."""

    def __init__(self) -> None:
        self.names = Names()
        self.dollar = False  # some text needs the variable `$dollar`
        self._empty: Atom | None = None
        self.known: dict[tuple[Hashable, ...], str] = {}
        self._defined: dict[Section, list[Map | Geo | Split | Line]] = {each: [] for each in Section}

    def named(self, kind: str, words: str, *key: Hashable) -> tuple[str, bool]:
        """The variable `kind_words` for this key, by default the words, and whether it is new, hence to be added."""
        at = (kind, *(key or (words,)))
        if at in self.known:
            return self.known[at], False
        self.known[at] = self.names.variable(kind, words)
        return self.known[at], True

    def first(self, *key: Hashable) -> bool:
        """Whether this key is asked for the first time."""
        if key in self.known:
            return False
        self.known[key] = ""
        return True

    def add(self, section: Section, *definitions: Map | Geo | Split | Line) -> None:
        self._defined[section] += definitions

    def map(
        self,
        section: Section,
        name: str,
        source: Text,
        *entries: Entry,
        default: Text | Atom = EMPTY,
        origin: str = "",
        volatile: bool = False,
        notes: Iterable[str] = (),
    ) -> None:
        """Add a map that sets the variable `name`; the first of a section has its note."""
        comments = map(Atom, (*notes, *_NOTES.get(section, ())) if self.first(section) else notes)
        self.add(section, Map(Atom(origin), source, reference(name), default, entries, volatile, tuple(comments)))

    def defined(self, sections: Iterable[Section] = _OTHERS) -> Defined:
        """All of these sections, by kind."""
        every = [each for section in sections for each in self._defined[section]]
        return Defined(
            geos=tuple(each for each in every if isinstance(each, Geo)),
            zones=tuple(each for each in every if isinstance(each, Line)),
            splits=tuple(each for each in every if isinstance(each, Split)),
            maps=tuple(each for each in every if isinstance(each, Map)),
        )

    def count(self) -> int:
        """How many variables there are, for the size of their table; the rest fits into the default."""
        kept = (each for section, each in self._defined.items() if section not in (Section.TRUST, Section.MIRRORS))
        return sum(not isinstance(one, Line) for each in kept for one in each)

    def text(self, *parts: str | Atom) -> Text:
        """A parameter of any length."""
        cut: list[Atom | Literal] = []
        for each in parts:
            cut += [each] if isinstance(each, Atom) else [Literal(piece, "part") for piece in pieces(each)]
        self.dollar = self.dollar or any(isinstance(p, Literal) and "$" in p.text for p in cut)
        while sum(map(_size, cut)) > MAX_LENGTH:
            cut = self._folded(cut)
        return joined(cut)

    def body(self, content: str) -> Text:
        """The text of a `return`; for an empty text nginx would send its own page."""
        if content:
            return self.text(content)
        if self._empty is None:
            self._empty = self._constant([])
        return text(self._empty)

    def _folded(self, parts: list[Atom | Literal]) -> list[Atom | Literal]:
        """The same text in fewer parts: runs of parts become constants."""
        out: list[Atom | Literal] = []
        run: list[Atom | Literal] = []
        used = 0
        for part in parts:
            if run and used + _size(part) > MAX_LENGTH:
                out.append(self._constant(run))
                run, used = [], 0
            run.append(part)
            used += _size(part)
        out.append(self._constant(run))
        return out

    def _constant(self, run: list[Atom | Literal]) -> Atom:
        constants = self._defined[Section.CONSTANTS]
        name = f"text_{len(constants) + 1}"
        constants.append(Map(NONE, EMPTY, reference(name), Text(tuple(run)), ()))
        return inline(name)


def _size(part: Atom | Literal) -> int:
    return size(part.text) if isinstance(part, Literal) else len(part.text)
