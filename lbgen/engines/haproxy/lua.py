"""Lua of a configuration: lbgen.lua holds only the functions that its statements call."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.text import Atom, Literal
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.view import Frontend

OWN = "lbgen.lua"
_CALL = re.compile(r"\blua\.([a-z_]+)")


def called_functions(frontends: Iterable[Frontend]) -> tuple[str, ...]:
    """The functions that frontends call, each in a file of its name."""
    found: set[str] = set()
    for each in frontends:
        words = [
            word.text
            for section in (each.guards, each.routing, each.edits)
            for one in section.statements
            for word in (one.directive, *one.arguments)
            if isinstance(word, Atom | Literal)
        ]
        found.update(_CALL.findall(" ".join(words)))
        ways = (("measured", each.measures_bodies), ("normal_path", each.paths.normalizes))
        found.update(name for name, is_used in (*ways, ("above_root", each.paths.is_verbatim)) if is_used)
    return tuple(sorted(found))


def own_file(functions: tuple[str, ...]) -> RenderedFile:
    """lbgen.lua with these functions."""
    text = "\n".join(["-- What statements of haproxy.cfg cannot express.\n", *map(_text, functions)])
    return RenderedFile(OWN, text, ("",) * text.count("\n"))


@cache
def _text(name: str) -> str:
    return (folder("templates") / "haproxy" / "lua" / f"{name}.lua").read_text(encoding="utf-8")
