"""Cases written as steps: requests that are counted while endpoints fail, and what happens on one connection."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

from msgspec.structs import replace

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import Answer, ClientConnection, websocket_echo
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    ScriptContext,
    account_field,
    broken_endpoint,
    control,
    get,
    own_status,
    require,
    wait_until,
)
from lbgen.conformance.transport import client_hello
from lbgen.plan.request import Request

Step = dict[str, Any]
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_SECONDS = 12.0  # for all steps of a connection
_REQUEST_KEYS = {"ask", "method", "headers", "control", "upgrade", "what", "within_ms"}
_COUNT_KEYS = {"target", "client", "listener", "keyed", "gets", "who", "only", "some", "reach", "unless_ms", "in_all"}
KEYS = {  # of the steps of each script
    "request_steps": _REQUEST_KEYS | _COUNT_KEYS | {"break", "how", "restore", "pause", "until"},
    "connection_steps": _REQUEST_KEYS
    | {"status", "forwarded", "unless_closed", "pause", "send", "receive", "echo", "hello"}
    | {"ends_ms", "silent", "or_status"},
}


def request_steps(ctx: ScriptContext) -> None:
    """Steps: `break: ENDPOINT, how: HOW`, `restore: all`, `pause: MS`, or `ask: N` requests one after the other, again
    and again for `until` milliseconds: `gets` = their statuses in order, as { STATUS: TIMES }; `who` answers how often
    (a number or bounds), nobody else; `only` and `some` = who answers alone, and among others; `reach` = so many come
    to endpoints; `within_ms` = the slowest. Endpoints of the case's pool go by their numbers, failures by a text. What
    takes longer than `unless_ms` tells nothing: the host is busy. `what` and `in_all` name a step, and what it expects
    together with those before it. Requests with `keyed` have keys of their own."""
    with ExitStack() as stack:
        for step in ctx.params["steps"]:
            if "break" in step:
                stack.enter_context(
                    broken_endpoint(ctx, _name(ctx, step["break"]), step.get("how", ctx.params.get("how", "")))
                )
            elif "restore" in step:
                stack.close()
            elif "pause" in step:
                time.sleep(step["pause"] / 1000)
            else:
                wrong = ""

                def fits(step: Step = step) -> bool:
                    nonlocal wrong
                    wrong = _wrong(ctx, step)
                    return not wrong

                wait_until(fits, step.get("until", 0) / 1000)
                require(not wrong, wrong)


def _name(ctx: ScriptContext, name: int | str) -> str:
    return ctx.endpoint(name) if isinstance(name, int) else name


def _wrong(ctx: ScriptContext, step: Step) -> str:
    """What is wrong with the answers to the requests of a step."""
    target, begun = step.get("target", ctx.target), time.monotonic()
    wanted = [status for status, times in step.get("gets", {}).items() for _ in range(times)]
    statuses: list[int | None] = []
    names: Counter[str] = Counter()
    slowest = 0.0
    for number in range(step["ask"]):
        request = _request(step, f"{target}?k={number}" if step.get("keyed") else target)
        if step.get("keyed"):
            request = replace(request, headers=(*request.headers, ("X-Key", str(number))))
        answer = ctx.ask(request)
        account = account_of(answer)
        statuses.append(own_status(answer, wanted[number]) if wanted else answer.status)
        names[str(account["name"]) if account is not None else str(own_status(answer, 503))] += 1
        slowest = max(slowest, answer.elapsed * 1000)
    if time.monotonic() - begun > step.get("unless_ms", 60_000) / 1000:
        return ""
    what = step.get("what", f"{step['ask']} requests for {target}")
    if wanted and statuses != wanted:
        times = (f"{count} times {status}" if count > 1 else f"{status}" for status, count in step["gets"].items())
        return f"{what}: {statuses}, expected {step.get('in_all', ', then '.join(times))}"
    bounds = {_name(ctx, name): times for name, times in step.get("who", {}).items()}
    bounds = {name: times if isinstance(times, list) else [times] * 2 for name, times in bounds.items()}
    only, some = ({_name(ctx, name) for name in step.get(key, ())} for key in ("only", "some"))
    fits = all(low <= names[name] <= high for name, (low, high) in bounds.items()) and some <= names.keys()
    if not fits or (bounds and names.keys() - bounds) or (only and names.keys() - only):
        return f"{what}: answers of {dict(names)}, expected {bounds or sorted(only | some)}"
    came = sum(seen.at >= begun and seen.target == target for seen in tuple(ctx.endpoints.seen))
    if came != step.get("reach", came):
        return f"{what}: {came} came to endpoints, expected {step['reach']}"
    return f"{what}: {slowest:.0f} ms, expected at once" if slowest > step.get("within_ms", slowest) else ""


def _request(step: Step, target: str) -> Request:
    headers = step.get("headers", {})
    lines = [*(headers.items() if isinstance(headers, dict) else map(tuple, headers))]
    lines += HANDSHAKE if step.get("upgrade") else ()
    lines += [control(**step["control"])] if "control" in step else ()
    request = get(target, *lines, method=step.get("method", "GET"))
    return replace(request, client=step.get("client", "127.0.0.1"), listener=step.get("listener", ""))


def connection_steps(ctx: ScriptContext) -> None:
    """Steps on one connection, or on each of `connections`: `ask: TARGET` (answered with `status`, by the engine or an
    endpoint, within `within_ms`; `forwarded` = X-Forwarded-For at the endpoint; `upgrade` begins a WebSocket;
    `unless_closed` = not after an answer that ends the connection),
    `pause: MS`, `send: TEXT`, `receive: TEXT`, `echo: TEXT` (or the `hello` of a TLS client for a name), and `ends_ms`:
    when the connection ends, without a byte (`silent`) or with a status (`or_status`)."""
    for steps in ctx.params.get("connections", [ctx.params.get("steps")]):
        with ctx.connect(timeout=_SECONDS) as stream:
            answer, asked, paused = Answer(), 0, 0.0
            for step in steps:
                if step.get("unless_closed") and answer.header("connection") == "close":
                    break
                if "ask" in step:
                    answer, asked = _ask_on(stream, step, _ORDINALS[asked], paused), asked + 1
                elif "pause" in step:
                    paused = step["pause"] / 1000
                    time.sleep(paused)
                elif "send" in step:
                    stream.send(step["send"].encode("latin-1"))
                elif "ends_ms" in step:
                    _ends(stream, step, "tunnel" if answer.status == 101 else "connection")
                else:
                    _receives(stream, step, tunnel=answer.status == 101)


def _ask_on(stream: ClientConnection, step: Step, ordinal: str, paused: float) -> Answer:
    """Ask, and check the answer."""
    target, status = step["ask"], step.get("status", 101 if step.get("upgrade") else 200)
    begun = time.monotonic()
    answer = stream.ask(_request(step, target))
    took = (time.monotonic() - begun) * 1000
    later = f", {paused:.1f} s after the one before" if paused else ""
    what = step.get("what", f"{ordinal} request, {target} {step.get('control', {}).get('mode', '')}{later}")
    found = f"{answer.status} {answer.problem}" if answer.status else answer.problem
    require(own_status(answer, status) == status, f"{what}: {found}, expected {status} ({stream.end})")
    account = account_of(answer)
    require(took <= step.get("within_ms", took), f"{what}: after {took:.0f} ms")
    if status == 200:
        require(account is not None and account["target"] == target, f"{what}: {account_field(answer, 'target')}")
    if account is not None and "forwarded" in step:
        lines = [value for name, value in account["headers"] if name.lower() == "x-forwarded-for"]
        require(lines == [step["forwarded"]], f"{what}: X-Forwarded-For {lines}")
    return answer


def _receives(stream: ClientConnection, step: Step, *, tunnel: bool) -> None:
    """Bytes come back as they were sent, or come unasked."""
    sent = client_hello(step["hello"]) if "hello" in step else step.get("echo", "").encode("latin-1")
    if tunnel:
        got: bytes | None = websocket_echo(stream, sent)
    else:
        stream.send(sent)
        sent = sent or step["receive"].encode("latin-1")
        got = stream.read_exactly(len(sent))
    require(got == sent, f"{got!r} came, expected {sent!r}; the connection is {stream.end}")


def _ends(stream: ClientConnection, step: Step, what: str) -> None:
    """The peer ends the connection in time."""
    (low, high), status, begun = step["ends_ms"], step.get("or_status", 0), time.monotonic()
    answer = stream.read_answer() if status else None
    left = b"" if status else stream.read_to_end()
    took = (time.monotonic() - begun) * 1000
    if answer is not None and answer.status is not None:
        own = own_status(answer, status) == status
        require(own, f"status {answer.status}, expected {status} or a closed connection")
    else:
        require(stream.end != "open", f"after {took / 1000:.1f} s of silence the {what} is open, expected its end")
    require(not (left and step.get("silent")), f"bytes on an idle connection: {left[:100]!r}")
    sentence = f"after {took / 1000:.1f} s of silence the {what} is {stream.end}, expected {low} to {high} ms"
    require(low <= took <= high, sentence)
