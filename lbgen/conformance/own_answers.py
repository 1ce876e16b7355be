"""Answers that a proxy makes by itself, in its own words: refusals, dropped clients, failures of endpoints."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lbgen.conformance.difference import Difference, Kind, late
from lbgen.plan.model import Plan
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.paths import normalise_path
from lbgen.plan.request import Request, host_of
from lbgen.plan.simulate import Outcome, simulate
from lbgen.runtime.standins.http1 import NAME, SEEN

if TYPE_CHECKING:
    from lbgen.conformance.case import Case, Expect
    from lbgen.conformance.http1_client import Answer


_OTHER_METHOD = "LBGEN-OTHER"  # which no rule names


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


def check_refused(answer: Answer) -> Iterator[Difference]:
    """A request that must not pass: any 4xx, 501 for a coding, or the connection closed without an answer."""
    if account_of(answer) is not None:
        yield Difference(Kind.ACCEPTED, f"reached an endpoint: {answer.body[:200]!r}")
    elif answer.status not in (None, 501) and not is_own_status(answer.status, 400):
        yield Difference(Kind.STATUS, answer.status, "4xx or a closed connection")
    elif answer.status is None and answer.after == "open":
        yield no_answer(answer)


def check_safe(plan: Plan, request: Request, answer: Answer) -> Iterator[Difference]:
    """A request that is not well-formed: refused, or served in a form on which the rules hold: its endpoint is one that
    the rules give to the request as the endpoint saw it, and the fields that proxies set are the proxy's."""
    account = account_of(answer)
    if account is None:
        yield from check_refused(answer) if answer.status is None else ()
        return
    headers = tuple(line for line in request.headers if line[0].lower() not in ("connection", "host"))
    method = account["method"] if re.fullmatch("[A-Z][A-Z_-]*", account["method"]) else _OTHER_METHOD
    readings = [
        replace(request, method=method, target=target, headers=(("Host", host), *headers))
        for target in _targets(request, account)
        for host in _hosts(request, account)
    ]
    fitting = [
        upstream
        for reading in readings
        for upstream in simulate(plan, reading).upstreams
        if upstream.pool == account["pool"] and upstream.target == _readable(account["target"])
    ]
    if not fitting:
        seen = f"{account['pool']} as {account['target']!r}"
        yield Difference(Kind.ACCEPTED, f"reached an endpoint: {seen}, which the rules do not say")
        return
    client = dict(fitting[0].headers).get("x-forwarded-for")
    arrived = [value for name, value in account["headers"] if name.lower() == "x-forwarded-for"]
    if client is not None and _elements(arrived) != _elements([client]):
        yield Difference(Kind.HEADER, "\n".join(arrived) or None, client, "x-forwarded-for", "to the endpoint")


def _elements(lines: list[str]) -> list[str]:
    """The elements of a list, on however many lines (RFC 9110 5.3)."""
    return [element.strip() for line in lines for element in line.split(",")]


def _hosts(request: Request, account: dict[str, Any]) -> Iterator[str]:
    """Hosts for which the request may have been served: the one that the endpoint saw, or that the client sent, in its
    target or Host, where a route rewrites it; whatever its port, or none."""
    authority = re.match(r"https?://([^/?#:]*)", request.target)
    yield from authority.groups() if authority is not None else ()
    yield from (value.partition(":")[0] for name, value in request.headers if name.lower() == "host")
    seen = next((value for name, value in account["headers"] if name.lower() == "host"), "")
    plain = host_of(seen).strip(".")
    yield from (seen, host_of(seen), plain, f"x.{plain}", "no-host.invalid")  # a dot at its beginning is below a name


def _targets(request: Request, account: dict[str, Any]) -> Iterator[str]:
    """Targets in canonical form, as one of which the request may have been served; without the host that they name."""
    yield _readable(account["target"])
    path, mark, query = re.sub("^https?://[^/?#]*", "", request.target).partition("?")
    for form in (path or "/", path.replace("\\", "/")):
        yield normalise_path(form, clamped=True) + mark + query


def _readable(target: str) -> str:
    """`target` with a plain escape for what no rule contains and no server takes for a delimiter of the path: escaped
    control characters, and in the query a `#` and bytes that are not ASCII."""
    path, mark, query = target.partition("?")
    return re.sub("%(0[1-9A-Fa-f]|1[0-9A-Fa-f]|7[Ff])", "%20", path) + mark + re.sub("[^!-~]|#", "%20", query)


def check_unanswered(answer: Answer, expect: Expect) -> Iterator[Difference]:
    """A connection that gets nothing: it is closed, in the handshake or after it."""
    if expect.no_handshake and answer.handshake is not None:
        names = ", ".join(answer.handshake.names) or "some name"
        yield Difference(Kind.TLS, f"ended well, with a certificate of {names}", name="handshake", place="TLS")
    if answer.status is not None:
        yield Difference(Kind.STATUS, answer.status, "a closed connection and no answer")
    elif answer.after == "open":
        yield no_answer(answer)


def check_dropped(case: Case, answer: Answer) -> Iterator[Difference]:
    """A client that was too slow: any 4xx, or the connection closed without an answer, in time."""
    if answer.status is not None and not is_own_status(answer.status, 408):
        yield Difference(Kind.STATUS, answer.status, "4xx or a closed connection")
    elif answer.status is None and answer.after == "open":
        yield no_answer(answer)
    yield from in_time(case.expect, answer)


def no_answer(answer: Answer) -> Difference:
    """What came instead of an answer."""
    kind = Kind.OPEN if answer.after == "open" else Kind.CUT if answer.raw else Kind.CLOSED
    if answer.problem.startswith("status line"):
        kind = Kind.NO_HTTP
    stays = " and the connection stays open" if kind is Kind.OPEN else ""
    return Difference(kind, f"no answer{stays}: {answer.problem}; got {answer.raw[:120]!r}")


def own_differences(expect: Expect, outcome: Outcome, answer: Answer) -> list[Difference] | None:
    """What is wrong with who made an answer that the engine makes, and with its status; its text and fields are the
    engine's own, but for those that its route and the case say. None where an endpoint or a route has to answer."""
    others = set(outcome.others)
    if not (outcome.made or expect.fault is not None or answer.status in others):
        return None
    if account_of(answer) is not None:
        said = f"an answer of the proxy expected, an endpoint answered: {answer.body[:200]!r}"
        return [Difference(Kind.ACCEPTED, said)]
    known = expect.fault if expect.fault is not None else outcome.status
    contract = sorted({*others, *expect.statuses, *(() if known is None else (known,))})
    if not any(is_own_status(answer.status, each) for each in contract):
        expected = contract[0] if len(contract) == 1 else " or ".join(map(str, contract))
        return [Difference(Kind.STATUS, answer.status, expected, why=outcome.reason)]
    return []


def in_time(expect: Expect, answer: Answer) -> Iterator[Difference]:
    """Whether the answer came in the time that the case gives."""
    if expect.within_ms is not None:
        low, high = expect.within_ms
        if not low <= answer.elapsed * 1000 <= high:
            yield late(f"took {answer.elapsed * 1000:.0f} ms, expected {low} to {high}")
