"""What no directive can say -> variables that functions of JavaScript modules set (njs), with the modules' files.

A module is `templates/nginx/NAME.js`, written beside nginx.conf as it stands where a plan uses one of its functions.
They cost where a request needs the variable and nothing elsewhere. One that throws leaves its variable empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.nginx.view import Script
from lbgen.engines.text import Atom
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable


def script(variable: str, module: str, function: str) -> Script:
    """`$variable` set by `function` of `module`."""
    return Script(Atom(f"${variable}"), Atom(module), Atom(function))


def modules(scripts: Iterable[Script]) -> tuple[Atom, ...]:
    """What must be imported, each once."""
    return tuple(dict.fromkeys(each.module for each in scripts))


def files(scripts: Iterable[Script]) -> tuple[RenderedFile, ...]:
    """The modules."""
    found = []
    for module in modules(scripts):
        text = (folder("templates") / "nginx" / f"{module.text}.js").read_text(encoding="utf-8")
        found.append(RenderedFile(f"{module.text}.js", text, ("",) * text.count("\n")))
    return tuple(found)
