"""Path safety: dot segments are resolved, and escapes that could form some are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.document import Commented
from lbgen.engines.traefik.view import CAN, Contributor, http_listeners
from lbgen.plan.model import Listener, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# Traefik's names of the escapes that it can refuse.
_ENCODED = ("Slash", "BackSlash", "NullCharacter", "Semicolon", "Percent", "QuestionMark", "Hash")
_HARMLESS = ("Semicolon", "Percent", "QuestionMark", "Hash")
_EMPTY_SEGMENTS = refused(f"Traefik merges repeated slashes before rules look at a path{CAN}")
_UNRESERVED = approximate("escapes of letters and digits reach endpoints decoded")


def _http(listener: Listener, version: str) -> dict[str, Data]:
    # What an endpoint could read as another path than the rules saw: the first is resolved, the others get 400.
    passing = (*_HARMLESS, "Slash") if listener.paths.encoded_slash else _HARMLESS
    comment = "Rules and endpoints see one path: dot segments are resolved, escapes that could form some are refused."
    return {
        "sanitizePath": Commented(comment, True),
        # 3.6 refused more by default in some of its patches.
        "encodedCharacters": {
            f"allowEncoded{name}": name in passing for name in _ENCODED if version == "3.6" or name not in _HARMLESS
        },
    }


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in http_listeners(plan):
        if listener.paths.empty_segments:
            yield Objection(_EMPTY_SEGMENTS, f"{listener.field}.paths", "paths.allow")
        elif listener.paths.encoded_unreserved:
            yield Objection(_UNRESERVED, f"{listener.field}.paths", "paths.allow")


PATHS = Contributor(http=_http, objections=_objections)
