"""Output for terminals and pipes that cannot hold every character: what they lack is replaced, nothing fails."""

from __future__ import annotations

import codecs
import io
import sys

_HANDLER = "lbgen"
_ALIKE = {
    "\u2026": "...",
    "\u2192": "->",
    "\u00d7": "x",
    "\u00a0": " ",
    **dict.fromkeys("\u2013\u2014", "-"),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
    **{chr(code): "*" for code in range(0x2800, 0x2900)},  # spinners
    **{chr(code): "+" for code in range(0x2500, 0x2580)},  # boxes
    **dict.fromkeys("\u2500\u2501\u2550", "-"),
    **dict.fromkeys("\u2502\u2503\u2551", "|"),
}
_ASCII = str.maketrans(_ALIKE)


def adapt_output() -> None:
    """Have standard output and error replace what their encoding lacks, and bytes of arguments that are no text."""
    codecs.register_error(_HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def holds_unicode() -> bool:
    """Whether standard output can hold every character."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name.startswith("utf")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """An error handler for codecs: ASCII that looks alike, else an escape such as \\xe9."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
