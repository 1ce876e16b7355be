"""Run one case on a serving engine and report the differences."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from lbgen.conformance import judge
from lbgen.conformance.difference import Difference, Kind, as_difference, in_context, late
from lbgen.conformance.http1_client import Address, Answer, ClientConnection, exchange, websocket_exchange
from lbgen.conformance.http2_client import fetch
from lbgen.conformance.own_answers import account_of, check_safe
from lbgen.conformance.scripts import SCRIPTS
from lbgen.plan.model import Plan, PoolProtocol
from lbgen.plan.simulate import Outcome, simulate
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    from lbgen.conformance.case import Case
    from lbgen.conformance.scripts.context import ScriptContext
    from lbgen.conformance.transport import Transport

_SETTLED = 0.12  # seconds after which no further try of an answered request comes


def run_case(case: Case, address: Address, ctx: ScriptContext) -> Iterator[Difference]:
    """Run `case` against the listener at `address`; yields the differences, none when it passes."""
    if case.script is not None:
        try:
            yield from (as_difference(found, case.clause) for found in SCRIPTS[case.script](ctx))
        except OSError as error:
            yield as_difference(f"connection failed: {error}")
    elif case.tcp is not None:
        yield from _tcp(case, address, _via(case, ctx))
    elif case.times > 1:
        yield from _many(case, address, ctx)
    else:
        if case.oracle and (outcome := simulate(ctx.plan, case.request)).well_formed:
            yield from judge.contradictions(case.expect, outcome)
        yield from _once(case, address, ctx)[1]


def fill_placeholders(case: Case, plan: Plan) -> Case:
    """Replace `{LISTENER}` in a case by its port, `{id POOL-NUMBER}` by the cookie value of that endpoint."""
    values = {listener.name: str(listener.port) for listener in plan.listeners}
    for pool in plan.pools:
        values |= {f"id {pool.name}-{number}": endpoint.cookie_value for number, endpoint in enumerate(pool.endpoints)}

    def fill(text: str) -> str:
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    expect = case.expect
    sends = {n: fill(v) if isinstance(v, str) else v for n, v in expect.sends.items()}
    location = fill(expect.location) if expect.location is not None else None
    request = replace(case.request, headers=tuple((name, fill(value)) for name, value in case.request.headers))
    return replace(case, request=request, expect=replace(expect, sends=sends, location=location))


def _via(case: Case, ctx: ScriptContext) -> Transport:
    return ctx.transport(case.request.listener or ctx.plan.listeners[0].name, case.request, case.transport)


def _once(case: Case, address: Address, ctx: ScriptContext) -> tuple[Answer, list[Difference]]:
    """The answer to one request of `case`, and what is wrong."""
    client, timeout, transport = case.request.client, case.timeout, _via(case, ctx)
    if case.raw is not None or case.send is not None:
        parts = case.send if case.raw is None else (case.raw,)
        answer = exchange(address, *(parts or ()), client=client, timeout=timeout, transport=transport)
        return answer, list(judge.raw_differences(case, answer))
    tag = ""
    if case.steps:
        tag = uuid4().hex
        control = (CONTROL, json.dumps({"tag": tag, "steps": case.steps}))
        case = replace(case, request=replace(case.request, headers=(*case.request.headers, control)))
    outcome = simulate(ctx.plan, case.request)
    if case.websocket is not None:
        answer, echoes = websocket_exchange(address, case.request, case.websocket, transport=transport)
        found = list(judge.differences(case, outcome, answer, ctx.own))
        if echoes != case.websocket:
            found.append(as_difference(f"echoes {echoes}, expected {case.websocket}"))
        return answer, found
    answer = fetch(address, case.request, timeout=timeout, transport=transport)
    if not outcome.well_formed:
        return answer, list(check_safe(ctx.plan, case.request, answer))
    found = list(judge.differences(case, outcome, answer, ctx.own))
    found += _stuck(outcome, answer, ctx.plan)
    found += _spoken(answer, ctx.plan)
    if tag:
        found += _tries(case, tag, ctx)
    return answer, found


def _stuck(outcome: Outcome, answer: Answer, plan: Plan) -> Iterator[Difference]:
    """Differences between the endpoint that answered and the one that a sticky cookie names."""
    account = account_of(answer)
    for upstream in outcome.upstreams:
        if upstream.endpoint is not None and account is not None:
            authorities = [endpoint.authority for endpoint in plan.pool(upstream.pool).endpoints]
            want = f"{upstream.pool}-{authorities.index(upstream.endpoint)}"
            if account["name"] != want:
                yield Difference(Kind.ENDPOINT, account["name"], want, "endpoint", why="the cookie's")


def _spoken(answer: Answer, plan: Plan) -> Iterator[Difference]:
    """Whether the endpoint was spoken to in its pool's version of HTTP."""
    account = account_of(answer)
    if account is not None and account.get("version") in ("1.1", "2"):
        want = "1.1" if plan.pool(account["pool"]).protocol is PoolProtocol.HTTP1 else "2"
        if account["version"] != want:
            yield Difference(Kind.SAW, account["version"], want, "version", "the endpoint saw")


def _tries(case: Case, tag: str, ctx: ScriptContext) -> Iterator[Difference]:
    """Differences in how often and where the request reached endpoints."""
    time.sleep(_SETTLED)
    copied = _mirrors(case, ctx)
    seen = [one for one in ctx.endpoints.tagged(tag) if one.name.rpartition("-")[0] not in copied]
    names = [one.name for one in seen]
    expect = case.expect
    if expect.tries is not None and len(seen) != expect.tries:
        yield Difference(Kind.TRIES, len(seen), expect.tries, "tries", why=", ".join(names))
    if expect.visits is not None and len(set(names)) != expect.visits:
        yield Difference(Kind.ENDPOINT, ", ".join(names), f"{expect.visits} different endpoints", "tries at")
    if len({(one.method, one.target, one.body_sha256) for one in seen}) > 1:
        yield as_difference("the tries differ in method, target or body")


def _mirrors(case: Case, ctx: ScriptContext) -> set[str]:
    """Pools that get copies of the request, and nothing else of it."""
    if not case.oracle:
        return set()
    outcome = simulate(ctx.plan, case.request)
    mirrors = getattr(ctx.plan.route(outcome.route).action, "mirrors", ()) if outcome.route is not None else ()
    return {mirror.pool for mirror in mirrors} - {upstream.pool for upstream in outcome.upstreams}


def _tcp(case: Case, address: Address, transport: Transport) -> Iterator[Difference]:
    assert case.tcp is not None  # noqa: S101  # the caller asked
    try:
        with ClientConnection(address, timeout=case.timeout, transport=transport) as stream:
            stream.send(case.tcp)
            if stream.end == "open":
                stream.shutdown_write()
            got = stream.read_to_end()
            took = (time.monotonic() - stream.begun) * 1000
            end = stream.end
    except ConnectionRefusedError:  # an engine in the kernel hands the endpoint's refusal on
        got, took, end = b"", 0.0, "reset"
    except OSError as error:
        kind = Kind.OPEN if isinstance(error, TimeoutError) else Kind.CLOSED
        yield Difference(kind, f"cannot connect: {error}")
        return
    want = (case.expect.receives or "").encode("latin-1")
    if got != want:
        yield Difference(Kind.BODY, repr(got), repr(want))
    if end == "open":
        yield Difference(Kind.OPEN, "the connection stays open")
    if case.expect.within_ms is not None and not case.expect.within_ms[0] <= took <= case.expect.within_ms[1]:
        yield late(f"took {took:.0f} ms, expected {case.expect.within_ms[0]} to {case.expect.within_ms[1]}")


def _many(case: Case, address: Address, ctx: ScriptContext) -> Iterator[Difference]:
    counts: Counter[str] = Counter()
    homes: dict[str, set[str]] = {}
    for number in range(case.times):
        client = case.request.client if case.clients == 1 else f"127.0.1.{number % case.clients + 1}"
        one = replace(case, request=replace(case.request, client=client))
        answer, found = _once(one, address, ctx)
        if found:
            yield from (in_context(f"request {number + 1} of {case.times}", one) for one in found)
            return
        account = account_of(answer)
        if account is None:
            if case.expect.fault is not None:
                continue
            where = f"request {number + 1} of {case.times}"
            yield Difference(Kind.STATUS, answer.status, "an answer of an endpoint", place=where)
            return
        counts.update((account["name"], account["pool"]) if account["name"] != account["pool"] else (account["name"],))
        homes.setdefault(client, set()).add(account["name"])
    for name, (low, high) in case.expect.share.items():
        if not low <= counts[name] <= high:
            share = f"{name} got {counts[name]} of {case.times}"
            yield Difference(Kind.ENDPOINT, share, f"{low} to {high}", why=f"all: {dict(counts)}")
    if case.expect.sticky and (moved := {c: sorted(h) for c, h in homes.items() if len(h) > 1}):
        yield Difference(Kind.ENDPOINT, f"clients that did not stay: {moved}")
