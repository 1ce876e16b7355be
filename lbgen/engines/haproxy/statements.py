"""Words -> statement lines, and entries -> map files: the two things a HAProxy configuration is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.text import Atom, Literal
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Word = Atom | Literal | int
# Outside of quotes no comment, escape or variable of the environment begins, and quotes end where they should.
_MADE = r"""(?:[^\x00-\x1f"#$'\\]|'[^'\n]*'|"(?:[^"$\\\n]|\\n)*")*"""
_ON_A_LINE = 30  # patterns of one condition; HAProxy takes 64 words in a line


@record
class Line:
    """One statement and the topology field it comes from."""

    words: tuple[Word, ...]
    origin: Atom


@record
class Section:
    """Statements under a comment."""

    title: Atom
    lines: tuple[Line, ...]


def line(origin: str, *words: str | Word) -> Line:
    """A statement; a `str` is text made by code (or a value whose grammar leaves no room), a Literal free text.

    ValueError for a `str` that HAProxy would read otherwise than it is written: that text has to be a Literal.
    """
    return Line(tuple(Atom.of(_MADE, w) if isinstance(w, str) else w for w in words), Atom(origin))


@dataclass(slots=True)
class MapFile:
    """Keys and values that HAProxy loads into a tree; a key without value makes it a plain list."""

    name: str
    title: str
    entries: list[tuple[str, str, str]] = field(default_factory=list)  # key, value, topology field

    def add(self, key: str, value: str, origin: str) -> None:
        """Append `key value`; ValueError for what a map file cannot hold."""
        if not key or key[0] == "#" or any(c in key for c in " \t\n") or "\n" in value or value != value.strip(" \t"):
            raise ValueError(f"{key!r} {value!r} does not fit into a map file")
        self.entries.append((key, value, origin))

    def rendered(self) -> RenderedFile:
        """The file, a comment on top."""
        lines = [f"# {self.title}", *(f"{key} {value}".rstrip() for key, value, _ in self.entries)]
        return RenderedFile(self.name, "\n".join(lines) + "\n", ("", *(origin for _, _, origin in self.entries)))


@dataclass(slots=True)
class Maps:
    """The map files of one listener, by purpose; their paths are relative to the folder of haproxy.cfg."""

    listener: str
    files: dict[str, MapFile] = field(default_factory=dict)

    def file(self, purpose: str, title: str) -> MapFile:
        """The map file for `purpose`, made when there is none yet."""
        name = f"maps/{self.listener}.{purpose}"
        return self.files.setdefault(name, MapFile(name, title))

    def among(
        self, variable: str, keys: Sequence[str], purpose: str, origins: dict[str, str], most: int = _ON_A_LINE
    ) -> str:
        """A condition that holds when `variable` is one of `keys`; more than `most` keys go to a list file."""
        if len(keys) <= most:
            return f"{{ var({variable}) -m str {' '.join(keys)} }}"
        listed = self.file(f"{purpose}.lst", f"values of {variable}")
        for key in keys:
            listed.add(key, "", origins.get(key, ""))
        return f"{{ var({variable}) -m str -f {listed.name} }}"

    def rendered(self) -> Iterable[RenderedFile]:
        """All files in the order of their names."""
        return (self.files[name].rendered() for name in sorted(self.files))
