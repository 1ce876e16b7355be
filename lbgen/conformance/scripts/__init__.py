"""Scripts: cases that need more than one answer. Each function exercises an engine and yields the differences.

A case names one by `script: NAME`; every public function of a module in this folder, but `context`, is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.conformance.scripts.context import ScriptContext

_TOPICS = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if found.name != "context"]

SCRIPTS: dict[str, Callable[[ScriptContext], Iterator[str]]] = {
    name: found
    for topic in _TOPICS
    for name, found in vars(topic).items()
    if isfunction(found) and found.__module__ == topic.__name__ and not name.startswith("_")
}
