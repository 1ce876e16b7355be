"""Responses that Envoy makes itself: local reply mappers that set the contract's status and body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.paths import MALFORMED, NOT_SERVED, TOO_LONG
from lbgen.engines.envoy.protobuf import extension
from lbgen.plan.reason_phrases import reason_phrase
from lbgen.records import record

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_DETAILS = "response.code_details"


@record
class ReplyCauses:
    """Optional causes of local replies on a listener: a limit of the target, a request timeout, and the statuses of its
    refusals."""

    target: bool = False
    request_time: bool = False
    refusals: tuple[int, ...] = ()


def build_local_replies(reasons: ReplyCauses) -> dict[str, Data]:
    """`local_reply_config`: the first mapper that matches a response made by Envoy applies. An endpoint's response
    matches none."""
    limits = [_mapper(_expression(f'{_DETAILS}.contains("[{TOO_LONG}]")'), 414)] if reasons.target else []
    times = [_mapper(_expression(f'{_DETAILS} == "max_duration_timeout"'), 504)] if reasons.request_time else []
    refusals = [_mapper(_status(code), code) for code in reasons.refusals]
    return {
        "mappers": [
            *limits,
            *times,
            # Redirects and fixed responses of routes keep their status and body.
            _mapper(_expression(f'{_DETAILS} == "direct_response"'), None),
            _mapper(_expression(f'{_DETAILS}.contains("[{NOT_SERVED}]")'), 405),
            _mapper(
                _expression(f'{_DETAILS}.contains("[{MALFORMED}]") || {_DETAILS} == "absolute_path_rejected"'), 400
            ),
            # The codec rejects a target that is no authority before the filter sees the method.
            _mapper(_expression('request.method == "CONNECT"'), 405),
            _mapper(_expression(f'{_DETAILS}.contains("connection_timeout")'), 504),
            # UF: connect failed; UC: closed by the endpoint; UR: reset by the endpoint; UPE: not HTTP.
            _mapper(_flags("UF", "UC", "UR", "UPE"), 502),
            _mapper(_flags("UT"), 504),
            _mapper(_flags("UH", "UO", "NC"), 503),
            _mapper(_flags("NR"), 404),
            _mapper(_status(501), 400),  # an unknown transfer coding
            *(_mapper(_status(code), code) for code in (400, 408, 413, 431, 504)),
            *refusals,
        ]
    }


def _mapper(where: dict[str, Data], status: int | None) -> dict[str, Data]:
    if status is None:
        return {"filter": where}
    return {"filter": where, "status_code": status, "body": {"inline_string": reason_phrase(status) + "\n"}}


def _expression(expression: str) -> dict[str, Data]:
    return {
        "extension_filter": extension(
            "because", "access_loggers.filters.cel.v3.ExpressionFilter", {"expression": expression}
        )
    }


def _flags(*flags: str) -> dict[str, Data]:
    return {"response_flag_filter": {"flags": list(flags)}}


def _status(code: int) -> dict[str, Data]:
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": code, "runtime_key": "none"}}}}
