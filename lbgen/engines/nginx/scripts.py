"""Variables set by functions of JavaScript modules (njs), and the files of the modules.

A module is `templates/nginx/NAME.js`, copied beside nginx.conf when a plan uses one of its functions. A function runs
when a request first uses its variable; when it throws, the variable is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import RenderedFile
from lbgen.engines.text import Atom
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable


class Script(Struct, frozen=True):
    """A variable set by a function of a JavaScript module when it is first used in a request."""

    variable: Atom
    module: Atom
    function: Atom


def script(variable: str, module: str, function: str) -> Script:
    """`$variable` set by `function` of `module`."""
    return Script(Atom(f"${variable}"), Atom(module), Atom(function))


def modules(scripts: Iterable[Script]) -> tuple[Atom, ...]:
    """The names of the modules, each once."""
    return tuple(dict.fromkeys(each.module for each in scripts))


def script_files(scripts: Iterable[Script]) -> tuple[RenderedFile, ...]:
    """The files of the modules."""
    files = []
    for module in modules(scripts):
        text = (folder("templates") / "nginx" / f"{module.text}.js").read_text(encoding="utf-8")
        files.append(RenderedFile(f"{module.text}.js", text, ("",) * text.count("\n")))
    return tuple(files)
