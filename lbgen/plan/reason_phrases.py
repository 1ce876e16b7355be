"""Reason phrases of RFC 9110, independent of the version of Python."""

from __future__ import annotations

from http import HTTPStatus

# Renamed by RFC 9110; Python took the new words in 3.13.
_RENAMED = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}


def reason_phrase(status: int) -> str:
    """The reason phrase; ValueError for a code that has none."""
    return _RENAMED.get(status) or HTTPStatus(status).phrase
