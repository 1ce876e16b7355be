"""Output for terminals and pipes whose encoding lacks some characters: these are replaced instead of failing."""

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
    """Make standard output and error replace characters that their encoding lacks."""
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def holds_unicode() -> bool:
    """Tell whether standard output can encode every character."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name.startswith("utf")


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Replace characters by similar ASCII, else by an escape such as \\xe9 (an error handler for codecs)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
