"""Text of a topology -> text that comes back unchanged although Traefik runs dynamic files as Go templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_OPEN = "{{"
# Back-quotes make a template literal that needs no escape inside a double-quoted YAML scalar.
_LITERAL_OPEN = "{{`{{`}}"


def quote_text(text: str) -> str:
    """`text` so that no part of it is run as a template action."""
    return text.replace(_OPEN, _LITERAL_OPEN)


def quote_data(data: Data) -> Data:
    """`data` with every text in it literal; marks of topology fields stay."""
    if isinstance(data, str):
        return quote_text(data)
    if isinstance(data, Tagged):
        return Tagged(data.field, {quote_text(key): quote_data(value) for key, value in data.items()})
    if isinstance(data, dict):
        return {quote_text(key): quote_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [quote_data(item) for item in data]
    return data
