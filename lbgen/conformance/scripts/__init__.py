"""Scripts: cases that need more than one answer. Each function exercises an engine, and yields the differences, or
raises MismatchError with the first.

A case names one by `script: NAME`; every public function of a module in this folder, but `context`, is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules

from lbgen.conformance.difference import Difference
from lbgen.conformance.scripts.context import MismatchError, ScriptContext

Differences = Iterator[Difference | str]
_TOPICS = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if found.name != "context"]


def _yielding(script: Callable[[ScriptContext], Differences | None]) -> Callable[[ScriptContext], Differences]:
    """The script, with what it raises among what it yields."""

    @wraps(script)
    def differences(ctx: ScriptContext) -> Differences:
        try:
            yield from script(ctx) or ()
        except MismatchError as mismatch:
            yield mismatch.args[0]

    return differences


SCRIPTS: dict[str, Callable[[ScriptContext], Differences]] = {
    name: _yielding(found)
    for topic in _TOPICS
    for name, found in vars(topic).items()
    if isfunction(found) and found.__module__ == topic.__name__ and not name.startswith("_")
}
