"""What one transaction changes in the kernel to get from the rules of some files to those of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from msgspec import Struct

FILE = "change.nft"
UNMARKED = "0" * 20
_MARK = "chain lb_rules/"
_MARK_SET = ("set", "lb_rules")  # of direct forwarding, which removes no table and so no chain
_MARK_ELEMENT = "\t\ttype mark\n\t\telements = {\n\t\t\t%d,"
_FIRST, _MARKS = 10**9, 2**32 - 10**9  # numbers of ten digits
_TABLE = re.compile(r"table (\S+ \S+) \{")
_OBJECT = re.compile(r"\t(chain|map|set|counter|ct timeout) (\S+) \{")
_OBJECT_END = "\n\t}\n"
_RANGES = "\t\tflags interval"
_ELEMENTS = "\t\telements = {"
_OUTSIDE = ("add table ", "delete table ", "flush table ", "add set ", "flush set ", "include ")
_LAST = ("map", "set", "chain", "counter", "ct timeout")  # what refers to others goes before them


class _Object(Struct, frozen=True, eq=False):
    """A chain, map, set, counter or time of a table, as its file has it; `elements` are those of a map or a set."""

    kind: str
    name: str
    lines: tuple[str, ...]
    elements: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


_Tables = dict[str, dict[tuple[str, str], _Object]]


def mark(text: str) -> str:
    """The rules with their digest in each table, as a chain's name or the element of a set, which tells what the kernel
    has."""
    digest = int.from_bytes(sha256(text.encode()).digest()[:8], "big")  # a number, as verify changes numbers only
    text = text.replace(f"{_MARK}{UNMARKED}", f"{_MARK}{digest:020}")
    return text.replace(_MARK_ELEMENT % _FIRST, _MARK_ELEMENT % (_FIRST + digest % _MARKS))


def change(before: Mapping[str, str], after: Mapping[str, str], rules: str, selections: str) -> str:
    """The commands for `nft -f` that change the rules of the files `before` to those of `after`, by name; "" where all
    have to be loaded. Where the kernel has other rules than `before`, the commands fail and change nothing.

    `rules` is the name of the file with the tables, `selections` of the one that the agent writes.
    """
    chosen = _changed_selections(before.get(selections, ""), after.get(selections, ""))
    if rules not in after:
        return chosen
    try:
        old, new = map(_tables, _without_common(before.get(rules, ""), after[rules]))
        if old.keys() != new.keys():
            return ""
        parts = [_difference(table, old[table], new[table]) for table in new]
    except ValueError:
        return ""
    return "".join((*(x for first, _ in parts for x in first), chosen, *(x for _, last in parts for x in last)))


def leftovers(before: Mapping[str, str], after: Mapping[str, str], rules: str) -> str:
    """The commands that remove what only the files `before` have, wherever it still is, once all of `after` is loaded:
    tables of direct forwarding, which have the open flows, are not deleted then. "" where there is nothing."""
    text = after.get(rules, "")
    old, new = (_tables(x, strict=False) for x in (before.get(rules, ""), text))
    found: list[str] = []
    for table, objects in new.items():
        if _MARK_SET in objects:
            every = [each for key, each in old.get(table, {}).items() if key not in objects]
            # Objects of the topology's own text may be in `after` in a form that is not recognised.
            found += _removal(table, [each for each in every if each.name.startswith("lb_") or each.name not in text])
    return "".join(found)


def _removal(table: str, gone: Iterable[_Object]) -> Iterator[str]:
    """Commands that succeed also where the objects are not there: only one that was added can surely be deleted."""
    leaving = sorted(gone, key=lambda each: _LAST.index(each.kind))
    for each in leaving:
        lines = () if each.kind == "chain" else each.lines
        yield from (f"table {table} {{\n", *_block(_Object(each.kind, each.name, lines, ())), "}\n")
    yield from (f"delete {each.kind} {table} {each.name}\n" for each in leaving)


def _changed_selections(before: str, after: str) -> str:
    """The parts of the agent's file that were not there before; a part of a removed chain goes with it."""
    old = set(_parts(before))
    return "".join(part for part in _parts(after) if part not in old)


def _parts(text: str) -> list[str]:
    return [f"flush chain {part}" for part in text.split("flush chain ")[1:]]


def _without_common(old: str, new: str) -> tuple[str, str]:
    """Both texts without most of the objects that they share, which would take long to read. Of several tables one
    cannot tell whose an object is."""
    if old.count("\ntable ") != 1 or new.count("\ntable ") != 1:
        return old, new
    first, last = old.split(_OBJECT_END), new.split(_OBJECT_END)
    both = set(first[1:-1]) & set(last[1:-1])  # the table begins in the first, and ends in the last
    old, new = (_OBJECT_END.join(x for x in each if x not in both) for each in (first, last))
    return old, new


def _tables(text: str, *, strict: bool = True) -> _Tables:
    """The objects by table. Raises ValueError for text that lbgen did not write, such as a user's own rules, which is
    left out unless `strict`."""
    found: _Tables = {}
    table: dict[tuple[str, str], _Object] | None = None
    lines = iter(text.splitlines())
    for line in lines:
        if not line or line.lstrip().startswith("#"):
            continue
        if table is None and (opened := _TABLE.fullmatch(line)):
            table = found[opened[1]] = {}
        elif table is not None and line == "}":
            table = None
        elif table is not None and (opened := _OBJECT.fullmatch(line)):
            made = _object(opened[1], opened[2], lines)
            if made is not None:
                table[made.key] = made
            elif strict:
                raise ValueError(line)
            else:
                table = None
        elif strict and (table is not None or not line.startswith(_OUTSIDE)):
            raise ValueError(line)
    if strict and not all(_MARK_SET in table or any(map(_is_mark, table.values())) for table in found.values()):
        raise ValueError("no mark")
    return found


def _object(kind: str, name: str, lines: Iterator[str]) -> _Object | None:
    """The object whose first line was read; None when its table ends before it."""
    own: list[str] = []
    elements: list[str] = []
    inside = False
    for line in lines:
        if line == "\t}":
            return _Object(kind, name, tuple(own), tuple(elements))
        if line == "}":
            break
        if line == _ELEMENTS and kind in ("map", "set"):
            inside = True
        elif inside and line == "\t\t}":
            inside = False
        elif inside:
            elements.append(line.strip().removesuffix(","))
        elif not line.lstrip().startswith("#"):
            own.append(line)
    return None


def _difference(
    table: str, old: Mapping[tuple[str, str], _Object], new: Mapping[tuple[str, str], _Object]
) -> tuple[list[str], list[str]]:
    """The commands before and after those of the agent's selections. Raises ValueError for a map of another type."""
    marks = [each for each in old.values() if _is_mark(each)]
    gone = [each for key, each in old.items() if key not in new and not _is_mark(each)]
    made = [each for key, each in new.items() if key not in old or _is_mark(each)]
    other = [each for key, each in new.items() if key in old and each.lines != old[key].lines]
    if any(each.kind != "chain" for each in other):
        raise ValueError(table)
    flushed = [each for each in (*gone, *other) if each.kind == "chain"]
    first = [f"delete chain {table} {each.name}\n" for each in marks]
    first += [f"flush chain {table} {each.name}\n" for each in flushed]
    first += [f"table {table} {{\n", *(line for each in (*made, *other) for line in _block(each)), "}\n"]
    for key, each in new.items():
        if key not in old or (each.elements == old[key].elements and key != _MARK_SET):
            continue
        if key == _MARK_SET:  # also where it stays, as it must be there
            first += _elements("delete", table, each.name, old[key].elements)
            first += _elements("add", table, each.name, each.elements)
        elif _RANGES in each.lines:  # nft 1.0 does not find single elements of such a map
            first += [f"flush map {table} {each.name}\n", *_elements("add", table, each.name, each.elements)]
        else:
            there, wanted = dict.fromkeys(old[key].elements), dict.fromkeys(each.elements)
            first += _elements("delete", table, each.name, (_key(x) for x in there if x not in wanted))
            first += _elements("add", table, each.name, (x for x in wanted if x not in there))
    leaving = sorted(gone, key=lambda each: _LAST.index(each.kind))
    return first, [f"delete {each.kind} {table} {each.name}\n" for each in leaving]


def _is_mark(each: _Object) -> bool:
    return f"{each.kind} {each.name}".startswith(_MARK)


def _block(each: _Object) -> Iterator[str]:
    """The object as a file has it, in its table."""
    yield f"\t{each.kind} {each.name} {{\n"
    yield from (f"{line}\n" for line in each.lines)
    if each.elements:
        yield f"{_ELEMENTS}\n"
        yield from (f"\t\t\t{element},\n" for element in each.elements)
        yield "\t\t}\n"
    yield "\t}\n"


def _elements(verb: str, table: str, name: str, elements: Iterable[str]) -> list[str]:
    every = list(elements)
    return [f"{verb} element {table} {name} {{ {', '.join(every)} }}\n"] if every else []


def _key(element: str) -> str:
    """The key of an element of a map or a set; no address in it has a colon between spaces."""
    return element.partition(" : ")[0]
