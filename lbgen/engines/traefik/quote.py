"""Quoting: Traefik runs dynamic files as Go templates and parses rules as Go expressions; text of a topology must come
out unchanged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged

if TYPE_CHECKING:
    from lbgen.engines.document import Data

OPEN = "{{"
# Back-quotes make a template literal, which needs no escape in a double-quoted YAML scalar.
_LITERAL_OPEN = "{{`{{`}}"


# What a Go literal in back-quotes cannot hold: it drops carriage returns.
_NOT_LITERAL = re.compile("[`\r\0\ufeff\udc80-\udcff]")
_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f\ufeff\udc80-\udcff]')


def quote_rule_text(text: str) -> str:
    """A text in a router's rule. Bytes that are no UTF-8 are surrogates, as of `surrogateescape`."""
    if not _NOT_LITERAL.search(text):
        return f"`{text}`"
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in '\\"':
        return "\\" + char
    code = ord(char)
    return f"\\x{code & 0xFF:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def quote_text(text: str) -> str:
    """`text` without any template action."""
    return text.replace(OPEN, _LITERAL_OPEN)


def quote_data(data: Data) -> Data:
    """`data` with every text in it quoted; topology fields are kept."""
    if isinstance(data, str):
        return quote_text(data)
    if isinstance(data, Commented):
        return Commented(data.comment, quote_data(data.value), data.apart)
    if isinstance(data, Tagged):
        return Tagged(data.field, {quote_text(key): quote_data(value) for key, value in data.items()})
    if isinstance(data, dict):
        return {quote_text(key): quote_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [quote_data(item) for item in data]
    return data
