"""The installed engines by their entry points; nothing is loaded."""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from lbgen import resources

GROUP = "lbgen.engines"


class EngineEntry(Struct, frozen=True):
    """Where an engine is: `module:attribute`."""

    value: str

    def load(self) -> object:
        """The engine. Raises ImportError."""
        module, _, attribute = self.value.partition(":")
        return attrgetter(attribute)(import_module(module))


@cache
def engine_entries() -> dict[str, EngineEntry]:
    """Entry points by name, of all installed distributions; of two with one name the first counts.

    They are read again when a folder of `sys.path` has changed, as it does with each installation: to import
    `importlib.metadata` and to look into all distributions takes a tenth of a start.
    """
    return {name: EngineEntry(value) for name, value in resources.kept("engines", _key(), _read, _make)}


def _key() -> list[object]:
    return [part for folder in sys.path for part in (folder, _changed(folder or "."))]


def _changed(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


def _read(content: bytes) -> list[tuple[str, str]]:
    return [(name, value) for name, value in json.loads(content)]


def _make() -> tuple[list[tuple[str, str]], bytes]:
    from importlib.metadata import entry_points

    found = {entry.name: f"{entry.module}:{entry.attr}" for entry in reversed(tuple(entry_points(group=GROUP)))}
    return list(found.items()), json.dumps(list(found.items())).encode()


@cache
def engine_names() -> tuple[str, ...]:
    """Names of the installed engines, in alphabetical order."""
    return tuple(sorted(engine_entries()))
