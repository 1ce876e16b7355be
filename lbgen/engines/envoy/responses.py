"""Routes that respond by themselves: status, body and header fields."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.envoy.headers import build_response_edits
from lbgen.engines.envoy.values import format_value
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.model import HeaderEdits, Respond

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_CONTENT_TYPE = "content-type"
_LONGEST = 4096  # bytes of a body, by default


def _manager(on: HttpListener) -> dict[str, Data]:
    bodies = [route.action.body for route in on.routes if isinstance(route.action, Respond)]
    longest = max((len(each.encode()) for each in bodies if isinstance(each, str)), default=0)
    return {"route_config": {"max_direct_response_body_size_bytes": longest}} if longest > _LONGEST else {}


def _route(at: HttpRoute) -> dict[str, Data]:
    respond, own = at.route.action, at.route.response_headers
    if not isinstance(respond, Respond):
        return {}
    # Envoy would add its own Location.
    removed = ("location",) if respond.status == HTTPStatus.CREATED or 300 <= respond.status < 400 else ()
    answer = HeaderEdits(set=respond.headers, remove=removed)
    return {
        "direct_response": _answer(at, respond, own),
        **build_response_edits(at, _without_content_type(answer), _without_content_type(own)),
    }


def _answer(at: HttpRoute, respond: Respond, own: HeaderEdits) -> dict[str, Data]:
    action: dict[str, Data] = {"status": respond.status}
    kind = next((value for edits in (own.set, respond.headers) for name, value in edits if name == _CONTENT_TYPE), None)
    if isinstance(respond.body, str) and kind in (None, "text/plain"):
        if respond.body:
            action["body"] = {"inline_string": respond.body}
    elif respond.body:
        # Envoy sets the type of the body after it has edited headers.
        text: Data = {"inline_string": format_value(at, respond.body, response=True)}
        absent: dict[str, Data] = {} if isinstance(respond.body, str) else {"omit_empty_values": True}
        action["body_format"] = {"text_format_source": text, **absent, "content_type": str(kind or "text/plain")}
    return action


def _without_content_type(edits: HeaderEdits) -> HeaderEdits:
    """The edits beside what Envoy sets after them, see `_answer`."""
    return replace(edits, set=tuple(each for each in edits.set if each[0] != _CONTENT_TYPE))


RESPONSES = Contributor(manager=_manager, route=_route)
