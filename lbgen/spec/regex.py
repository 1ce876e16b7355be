"""Regular expressions of a topology: portable, and accepted by RE2."""

from __future__ import annotations

from functools import lru_cache

import re2

from lbgen.regex import RegexError, parse
from lbgen.spec.value_errors import invalid, require_text, shorten

_LONGEST = 1024


def parse_regex(value: object) -> str:
    """A portable regular expression; LB118 with the reason otherwise."""
    pattern = require_text("a regular expression", value)
    _check(pattern)
    return pattern


@lru_cache(maxsize=4096)
def _check(pattern: str) -> None:
    if not pattern:
        raise invalid("LB118", "an empty regular expression", "write .+ for any value")
    if len(pattern) > _LONGEST:
        raise invalid("LB118", f"longer than {_LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        parse(pattern)
        re2.compile(pattern, options)
    except RegexError as error:
        raise invalid("LB118", f'"{shorten(pattern)}": {shorten(str(error), 200)}', error.hint) from None
    except RecursionError:
        raise invalid("LB118", f'"{shorten(pattern)}": its groups are nested too deeply') from None
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise invalid("LB118", f'"{shorten(pattern)}": {shown}') from None
