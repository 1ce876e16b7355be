"""The installed engines by their entry points; nothing is loaded."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from lbgen import resources

GROUP = "lbgen.engines"
_DISTRIBUTION = (".dist-info", ".egg-info", ".egg")


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

    They are read again when a folder of `sys.path` with distributions has changed, as it does with each installation:
    to import `importlib.metadata` and to look into all distributions takes a tenth of a start.
    """
    return {name: EngineEntry(value) for name, value in resources.kept("engines", _key(), _read, _make)}


def _key() -> list[object]:
    """Folders of distributions with the time of their last change. Others do not count: the working directory, which
    `python -m` has on its path, changes all the time."""
    return [part for folder in sys.path for part in _distributions(folder or ".")]


def _distributions(folder: str) -> tuple[object, ...]:
    """The folder and when it changed; nothing where it has no distributions or cannot be read."""
    try:
        if any(name.endswith(_DISTRIBUTION) for name in os.listdir(folder)):  # noqa: PTH208  # faster, at each start
            return folder, Path(folder).stat().st_mtime_ns
    except NotADirectoryError:  # an archive
        return folder, Path(folder).stat().st_mtime_ns
    except OSError:
        pass
    return ()


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
