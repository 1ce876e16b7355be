"""Responses that Envoy makes itself: local reply mappers that set the contract's status and body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.document import Commented
from lbgen.engines.envoy.paths import MALFORMED, NOT_SERVED, TOO_LONG
from lbgen.engines.envoy.protobuf import extension
from lbgen.plan.reason_phrases import reason_phrase

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_DETAILS = "response.code_details"
_OUT_OF_TIME = f'{_DETAILS} == "max_duration_timeout"'
# Envoy waits with its idle clock for the response to a handshake, and says 408, as the request has no end.
_LATE_HANDSHAKE = f'{_DETAILS} == "stream_idle_timeout" && "upgrade" in request.headers'


class ReplyCauses(Struct, frozen=True, eq=False):
    """What is mapped: all of Envoy's own replies (`answers`), and those to requests that lbgen's filters refuse
    (`malformed`, `target`). Of the former, optional ones: a request timeout, and the statuses of policies that refuse.
    """

    answers: bool = True
    malformed: bool = True
    target: bool = False
    request_time: bool = False
    refusals: tuple[int, ...] = ()


def build_local_replies(reasons: ReplyCauses) -> dict[str, Data]:
    """`local_reply_config`: the first mapper that matches a response made by Envoy applies. An endpoint's response
    matches none."""
    mappers: list[Data] = [_mapper(_expression(f'{_DETAILS}.contains("[{TOO_LONG}]")'), 414)] if reasons.target else []
    if reasons.malformed:
        served = f'{_DETAILS}.contains("[{NOT_SERVED}]") || request.method == "CONNECT"'
        formed = f'{_DETAILS}.contains("[{MALFORMED}]") || {_DETAILS} == "absolute_path_rejected"'
        early = "Envoy rejects CONNECT, and targets that are no path, before a filter sees the request."
        mappers += [Commented(early, _mapper(_expression(served), 405)), _mapper(_expression(formed), 400)]
    if reasons.answers:
        mappers += _map_own_answers(reasons)
    elif reasons.request_time:  # the field's own status; Envoy says 408 while a body is awaited
        mappers.append(_mapper(_expression(_OUT_OF_TIME), 504))
    return {"mappers": mappers} if mappers else {}


def _map_own_answers(reasons: ReplyCauses) -> list[Data]:
    times = f"{_OUT_OF_TIME} || " if reasons.request_time else ""
    return [
        Commented(
            "Fixed responses of routes stay as they are.",
            _mapper(_expression(f'{_DETAILS} == "direct_response"'), None),
        ),
        _mapper(_expression(f'{times}{_DETAILS}.contains("connection_timeout") || {_LATE_HANDSHAKE}'), 504),
        Commented(
            "UF: connect failed; UC, UR: closed or reset by the endpoint; UPE: its response is not HTTP.",
            _mapper(_flags("UF", "UC", "UR", "UPE"), 502),
        ),
        Commented("An unknown transfer coding.", _mapper(_status(501), 400)),
        *(_body(code) for code in (400, 404, 408, 413, 431, 503, 504, *reasons.refusals)),
    ]


def _mapper(where: dict[str, Data], status: int | None) -> dict[str, Data]:
    if status is None:
        return {"filter": where}
    return {"filter": where, "status_code": status, "body": _text(status)}


def _body(status: int) -> dict[str, Data]:
    """A mapper that sets the body alone."""
    return {"filter": _status(status), "body": _text(status)}


def _text(status: int) -> dict[str, Data]:
    return {"inline_string": reason_phrase(status) + "\n"}


def _expression(expression: str) -> dict[str, Data]:
    return {
        "extension_filter": extension(
            "code-details", "access_loggers.filters.cel.v3.ExpressionFilter", {"expression": expression}
        )
    }


def _flags(*flags: str) -> dict[str, Data]:
    return {"response_flag_filter": {"flags": list(flags)}}


def _status(code: int) -> dict[str, Data]:
    return {"status_code_filter": {"comparison": {"value": {"default_value": code, "runtime_key": "none"}}}}
