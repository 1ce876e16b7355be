"""Typed shapes of the rules, as the template prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.text import Atom


@record
class Element:
    first: int
    last: int
    address: Atom
    port: int


@record
class Map:
    """The endpoints by slot; a counter, a random number or else a hash of the client's address selects the slot."""

    name: Atom
    field: Atom
    slots: int
    counter: bool
    random: bool
    elements: tuple[Element, ...]
    endpoints: tuple[Element, ...]


@record
class Port:
    """A listener; `address` None = every address of this host, `idle` in seconds."""

    name: Atom
    field: Atom
    address: Atom | None
    port: int
    map: Map
    idle: int


@record
class Table:
    family: Atom  # ip or ip6
    loopback: Atom
    ports: tuple[Port, ...]
    maps: tuple[Map, ...]


@record
class View:
    lbgen: Atom  # our own version
    topology: Atom
    name: Atom
    tables: tuple[Table, ...]
