"""Placeholders in texts of a topology, such as `{client_ip}`: where they stand, and which braces are text.

`{NAME}` is a placeholder where NAME is a word in lower case, `header.` or `cookie.` with a name behind it, or the
number of a group of the matched path. `{{NAME}}` is the text `{NAME}`. Every other brace is text, as in JSON, as are
`${NAME}` and `%{NAME}`, which other programs read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from lbgen.spec.pydantic_errors import suggest

NAMES = (
    *("client_ip", "client_port", "scheme", "host", "port", "method", "path", "query", "uri", "request_id"),
    *("server_name", "route", "listener", "endpoint"),
    *("client_cert.subject", "client_cert.fingerprint", "client_cert.verified"),
)
"""Placeholders with a fixed name."""
OF_ROUTES = ("route", "endpoint")
"""Those of them that a text which routes share cannot have."""
FAMILIES = ("header", "cookie")
"""Those that a name follows, as in `{header.x-user}`."""
_NAME = r"[a-z][a-z0-9_]*(?:\.[!#$%&'*+.^_`|~0-9A-Za-z-]+)?|[1-9][0-9]?"
_BRACES = re.compile(rf"\{{\{{(?P<text>{_NAME})\}}\}}|(?<![$%])\{{(?P<name>{_NAME})\}}")


class Mention(Struct, frozen=True):
    """A placeholder as it is written, without its braces."""

    name: str

    @property
    def is_group(self) -> bool:
        """Whether it may be a group of the matched path: a number, or a word that no placeholder has."""
        return self.name.isdecimal() or ("." not in self.name and self.name not in NAMES)

    @property
    def is_known(self) -> bool:
        """Whether it is a placeholder of every route."""
        family, dot, rest = self.name.partition(".")
        return self.name in NAMES or (bool(dot and rest) and family in FAMILIES)


def split_text(text: str) -> Iterator[str | Mention]:
    """The parts of a text, in order; never two pieces of literal text side by side."""
    literal, at = "", 0
    for found in _BRACES.finditer(text):
        literal += text[at : found.start()]
        at = found.end()
        if found["text"] is not None:
            literal += f"{{{found['text']}}}"
            continue
        if literal:
            yield literal
        yield Mention(found["name"])
        literal = ""
    if literal := literal + text[at:]:
        yield literal


def has_placeholder(text: str) -> bool:
    """Whether `text` has any placeholder."""
    return "{" in text and any(isinstance(part, Mention) for part in split_text(text))


def suggest_name(wrong: str, groups: tuple[str, ...] = (), *, shared: bool = False) -> str:
    """A hint: the placeholder that is near, or all of them, and how to write the text itself. `shared`: of a text that
    holds for all routes."""
    known = [*(name for name in NAMES if not (shared and name in OF_ROUTES)), *(f"{each}.NAME" for each in FAMILIES)]
    near = suggest(wrong, [*known, *groups])
    listed = ", ".join(f"{{{name}}}" for name in (*known, *(() if shared else ("1",))))
    first = near if near.startswith("did you mean") else f"placeholders: {listed}"
    return f"{first}; for the text itself write {{{{{wrong}}}}}"
