"""Single mutations of header fields, as Envoy's messages have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data

SET = "OVERWRITE_IF_EXISTS_OR_ADD"
APPEND = "APPEND_IF_EXISTS_OR_ADD"


def escape_format(literal: str) -> str:
    """Free text where Envoy expands `%COMMAND%`."""
    return literal.replace("%", "%%")


def header_option(name: str, value: str, action: str) -> dict[str, Data]:
    """A HeaderValueOption; `value` is in Envoy's format syntax."""
    return {"header": {"key": name, "value": value}, "append_action": action}


def build_mutation_filter(name: str, mutations: Sequence[Data], side: str = "request") -> dict[str, Data]:
    """A filter that applies `mutations` to the headers of each request, or of each response."""
    config: Data = {f"{side}_mutations": mutations}
    return extension(name, "filters.http.header_mutation.v3.HeaderMutation", {"mutations": config})
