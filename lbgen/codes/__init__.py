"""The registry of finding codes: what each `LBnnn` means, what causes it, an example, and the remedy.

A code is never reused for another meaning. 1xx: text and values; 20x to 25x: objects of a topology; 26x to 29x and
238: advice; 3xx: verdicts of engines; 4xx: engines and runtimes.
"""

from __future__ import annotations

import re

from msgspec import Struct

from lbgen.codes import advice, engines, objects, values

__all__ = ["CODES", "Code"]

_ENTRY = re.compile(
    r"^(?P<code>LB\d{3}) (?P<title>.+)\n"
    r"  cause: (?P<cause>.+(?:\n    .+)*)\n"
    r"  example: (?P<example>.+(?:\n    .+)*)\n"
    r"  remedy: (?P<remedy>.+(?:\n    .+)*)\n",
    re.MULTILINE,
)


class Code(Struct, frozen=True):
    """One code. `cause` and `remedy` are sentences in Markdown; `example` is a command that begins with `$`, or
    top-level keys of a topology that gets the finding."""

    code: str
    title: str
    cause: str
    example: str
    remedy: str


def _codes(text: str) -> dict[str, Code]:
    """Read entries: a line `LBnnn title`, then `cause:`, `example:` and `remedy:`, continued 4 columns in."""
    found = {}
    for entry in _ENTRY.finditer(text):
        cause, example, remedy = entry["cause"], entry["example"], entry["remedy"]
        code = Code(
            entry["code"],
            entry["title"],
            cause.replace("\n   ", ""),
            example.replace("\n    ", "\n"),
            remedy.replace("\n   ", ""),
        )
        found[code.code] = code
    return found


CODES = _codes("".join(module.TEXT for module in (values, objects, advice, engines)))
