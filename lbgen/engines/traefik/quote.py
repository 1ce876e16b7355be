"""Quoting: Traefik runs dynamic files as Go templates, and text of a topology must come out unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_OPEN = "{{"
# Back-quotes make a template literal, which needs no escape in a double-quoted YAML scalar.
_LITERAL_OPEN = "{{`{{`}}"


def quote_text(text: str) -> str:
    """`text` without any template action."""
    return text.replace(_OPEN, _LITERAL_OPEN)


def quote_data(data: Data) -> Data:
    """`data` with every text in it quoted; topology fields are kept."""
    if isinstance(data, str):
        return quote_text(data)
    if isinstance(data, Tagged):
        return Tagged(data.field, {quote_text(key): quote_data(value) for key, value in data.items()})
    if isinstance(data, dict):
        return {quote_text(key): quote_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [quote_data(item) for item in data]
    return data
