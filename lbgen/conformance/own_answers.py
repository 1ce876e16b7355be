"""Answers that a proxy makes by itself: refusals, dropped clients, and those whose form is left to the engine."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from lbgen.plan.guarantees import ASKED_STATUSES, is_loose_status
from lbgen.plan.reason_phrases import reason_phrase
from lbgen.runtime.standins.http1 import NAME, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.case import Case, Expect
    from lbgen.conformance.http1_client import Answer
    from lbgen.plan.simulate import Outcome


def account_of(answer: Answer) -> dict[str, Any] | None:
    """The stand-in's JSON account of the request that reached it, or None when no stand-in answered."""
    if answer.header(NAME) is None:
        return None
    if (saw := answer.header(SEEN)) is not None:
        found: dict[str, Any] = json.loads(b64decode(saw))
        return found
    try:
        found = json.loads(answer.body)
    except ValueError:
        return None
    return found


def reason_body(status: int) -> str:
    """The body of a status that the proxy makes: the reason phrase and a newline."""
    return f"{reason_phrase(status)}\n"


def check_refused(answer: Answer, *, loose: bool = False) -> Iterator[str]:
    """A request that must not pass: 400 (`loose`: any 4xx), or the connection closed without an answer."""
    if account_of(answer) is not None:
        yield f"reached an endpoint: {answer.body[:200]!r}"
    elif answer.status not in (None, 400) and not (loose and is_loose_status(answer.status, 400)):
        yield f"status {answer.status}, expected 400 or a closed connection"
    elif answer.status is None and answer.after == "open":
        yield f"no answer and the connection stays open ({answer.problem})"


def check_unanswered(answer: Answer, expect: Expect) -> Iterator[str]:
    """A connection that gets nothing: it is closed, in the handshake or after it."""
    if expect.no_handshake and answer.handshake is not None:
        yield f"TLS: the handshake ended well, with a certificate of {', '.join(answer.handshake.names) or 'some name'}"
    if answer.status is not None:
        yield f"status {answer.status}, expected a closed connection and no answer"
    elif answer.after == "open":
        yield f"no answer and the connection stays open ({answer.problem})"


def check_dropped(case: Case, answer: Answer, *, loose: bool = False) -> Iterator[str]:
    """A client that was too slow: 408 (`loose`: any 4xx), or the connection closed without an answer, in time."""
    if answer.status not in (None, 408) and not (loose and is_loose_status(answer.status, 408)):
        yield f"status {answer.status}, expected 408 or a closed connection"
    elif answer.status is None and answer.after == "open":
        yield f"no answer and the connection stays open ({answer.problem})"
    yield from in_time(case.expect, answer)


def loose_differences(expect: Expect, outcome: Outcome, answer: Answer) -> list[str] | None:
    """What is wrong with an answer that the engine makes and whose form is left to it: only its status counts, by
    class, or by itself where a field asks for it. None where an endpoint or a route has to answer."""
    others = set(outcome.others)
    if not (outcome.made or expect.fault is not None or answer.status in others):
        return None
    if account_of(answer) is not None:
        return [f"an answer of the proxy expected, an endpoint answered: {answer.body[:200]!r}"]
    known = expect.fault if expect.fault is not None else outcome.status
    contract = sorted({*others, *expect.statuses, *(() if known is None else (known,))})
    if any(is_loose_status(answer.status, each) for each in contract):
        return list(in_time(expect, answer))
    like = [f"{each}" if each in ASKED_STATUSES else f"{each} or one of its class" for each in contract]
    return [f"status {answer.status}, expected {' or '.join(like)} ({outcome.reason})"]


def in_time(expect: Expect, answer: Answer) -> Iterator[str]:
    """Whether the answer came in the time that the case gives."""
    if expect.within_ms is not None:
        low, high = expect.within_ms
        if not low <= answer.elapsed * 1000 <= high:
            yield f"took {answer.elapsed * 1000:.0f} ms, expected {low} to {high}"
