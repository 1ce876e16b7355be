"""Typed statements of haproxy.cfg: a directive, its arguments, and the ACLs that must all hold for it to apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.text import Atom, Literal

Word = Atom | Literal | int
# Outside of quotes no comment, escape or environment variable begins, and quotes end where they should.
_MADE = r"""(?:[^\x00-\x1f"#$'\\]|'[^'\n]*'|"(?:[^"$\\\n]|\\n)*")*"""
HOST = "req.fhdr(host),host_only,lower,rtrim(.)"  # a sample of the host as rules compare it
ARGUMENTS_PER_LINE = 40  # HAProxy accepts 64 words per line


class Acl(Struct, frozen=True, eq=False):
    """A condition: `{ words }`, or the name of an ACL that stands above; `!` precedes it when `negated`."""

    words: tuple[Word, ...]
    is_name: bool = False
    negated: bool = False

    def __invert__(self) -> Acl:
        return Acl(self.words, self.is_name, not self.negated)


class Statement(Struct, frozen=True, eq=False):
    """One line of a section, the topology field that it comes from, and a comment behind it."""

    directive: Atom
    arguments: tuple[Word, ...]
    acls: tuple[Acl, ...]
    origin: Atom
    comment: Atom | None = None

    def texts(self) -> list[str]:
        """Its words, those of its ACLs included, but for texts of users."""
        every = (self.directive, *self.arguments, *(word for acl in self.acls for word in acl.words))
        return [word.text for word in every if isinstance(word, Atom)]

    def extend(self, *arguments: str | Word, acls: Iterable[Acl] = (), origin: str) -> Statement:
        """The same statement with `arguments` after its own, and `acls` before its own."""
        return replace(
            self,
            arguments=(*self.arguments, *words(*arguments)),
            acls=(*acls, *self.acls),
            origin=Atom(origin),
        )


class Section(Struct, frozen=True, eq=False):
    """Statements under a comment, None = without one."""

    title: Atom | None
    statements: tuple[Statement, ...]


class Block(Struct, frozen=True, eq=False):
    """A section of the file: its first line, the `defaults` that it is `from` (None: of none), and its statements."""

    head: Statement
    inherits: Atom | None
    body: Section


def words(*texts: str | Word) -> tuple[Word, ...]:
    """A `str` is text made by code (or a value whose grammar leaves no room), a Literal free text of a user.

    ValueError for a `str` that HAProxy would not read as it is written: that text has to be a Literal.
    """
    return tuple(Atom.of(_MADE, text) if isinstance(text, str) else text for text in texts)


def statement(
    directive: str, *arguments: str | Word, when: Iterable[Acl] = (), origin: str = "", comment: str = ""
) -> Statement:
    """Any statement; `directive` is its keyword and action, such as `http-request set-path`."""
    made = (Atom.of(_MADE, directive), words(*arguments), tuple(when), Atom(origin))
    return Statement(*made, Atom(comment) if comment else None)


def section(title: str, statements: Iterable[Statement]) -> Section:
    """Statements under a comment, "" = without one."""
    return Section(Atom(title) if title else None, tuple(statements))


def block(head: Statement, inherits: str, statements: Iterable[Statement], title: str = "") -> Block:
    """A section of the file, with `title` as the comment above it; `inherits` = "": it is from no `defaults`."""
    return Block(head, Atom(inherits) if inherits else None, section(title, statements))


def set_var(variable: str, expression: str | Literal, when: Iterable[Acl] = (), origin: str = "") -> Statement:
    """Store the value of a sample expression in a variable."""
    return statement(f"http-request set-var({variable})", expression, when=when, origin=origin)


def deny(status: int, when: Iterable[Acl] = (), origin: str = "") -> Statement:
    """Refuse with HAProxy's own page."""
    return statement(f"http-request deny deny_status {status}", when=when, origin=origin)


def acl(*texts: str | Word) -> Acl:
    """An anonymous ACL."""
    return Acl(words(*texts))


def acl_named(name: str) -> Acl:
    """A reference to a named ACL."""
    return Acl(words(name), is_name=True)


def is_set(variable: str) -> Acl:
    """The variable is set."""
    return acl(f"var({variable}) -m found")


def is_one_of(variable: str, values: Iterable[str]) -> Acl:
    """The variable equals one of `values`."""
    return acl(f"var({variable}) -m str {' '.join(values)}")


def batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """`values` in pieces that each fit into one line."""
    return (values[i : i + ARGUMENTS_PER_LINE] for i in range(0, len(values), ARGUMENTS_PER_LINE))
