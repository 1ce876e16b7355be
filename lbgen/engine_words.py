"""Words of the engines' own languages in texts of a topology: what authenticates clients, and variables.

Each installed engine lists its words in `words.json` beside its module; one without that file has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from lbgen.installed import engine_entries

_FILE = "words.json"
_APACHE = Path(__file__).parent / "spec" / "apache_words.json"  # no engine, but many configurations come from it
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)  # in the configuration of each engine


class Words(Struct, frozen=True):
    """Of one engine: regular expressions of what authenticates clients, in any case; one of a variable, whose group is
    its name; the names that a placeholder has there; and of names that hold that of a header or a cookie, by family."""

    authentication: tuple[str, ...] = ()
    variable: str = ""
    placeholders: dict[str, tuple[str, ...]] = {}
    families: dict[str, str] = {}

    def placeholder(self, variable: str) -> str:
        """The placeholder for a variable; "" where there is none."""
        for placeholder, names in self.placeholders.items():
            if variable in names:
                return placeholder
        for family, pattern in self.families.items():
            if found := re.fullmatch(pattern, variable):
                return f"{family}.{found[1].lower().replace('_', '-') if family == 'header' else found[1]}"
        return ""


@cache
def installed_words() -> tuple[Words, ...]:
    """The words of all installed engines, and of Apache."""
    return tuple(msgspec.json.decode(path.read_bytes(), type=Words) for path in (*_files(), _APACHE))


def _files() -> Iterator[Path]:
    for _, entry in sorted(engine_entries().items()):
        spec = find_spec(entry.module)  # which loads no engine
        for folder in (spec and spec.submodule_search_locations) or ():
            if (path := Path(folder) / _FILE).is_file():
                yield path


def find_authentication(text: str) -> str | None:
    """The word of a text for one engine that asks clients who they are, which no other engine would then do; None where
    there is none."""
    every = "|".join(pattern for words in installed_words() for pattern in words.authentication)
    found = re.search(every, _COMMENT.sub("", text), re.IGNORECASE) if every else None
    return None if found is None else " ".join(re.split(r"[\s(]+", found[0])[: 2 if "-" in found[0] else 1])


def find_variable(text: str) -> tuple[str, str] | None:
    """The first variable of an engine in `text`, as it stands there, and the placeholder for it ("" = none)."""
    found = [
        (match.start(), match[0], words.placeholder(match[1]))
        for words in installed_words()
        if words.variable and (match := re.search(words.variable, text)) is not None
    ]
    return min(found)[1:] if found else None
