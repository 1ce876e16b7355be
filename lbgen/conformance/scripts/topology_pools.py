"""Checks of any pool: shares, keys, health checks, backups, connections to endpoints; at layer 4 as well.

`request` is one that reaches the pool; of a route with several pools, `pool` is the one whose answers count.
"""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from lbgen.conformance import judge
from lbgen.conformance.case import Case, Expect
from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    HANDOVER,
    NOBODY,
    TAKES_HOLD,
    ScriptContext,
    behaving,
    names_that_answer,
    wait_until,
    who_answers,
)
from lbgen.conformance.scripts.topology_timeouts import NOTICED
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.simulate import simulate
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.plan.request import Request

_MOST = 1_600  # requests that wait for answers of a rare pool
_HELD_MS = 1_500  # for which an endpoint keeps its client waiting
_EARLY = 0.8  # of the time that failing checks must take


def shares_hold(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Of `times` requests each pool (`by`: pool, `l4 pool`) or endpoint (name) gets its share, five deviations off at
    most. What each pool gets is what the oracle says."""
    request, by, pool = ctx.params["request"], ctx.params["by"], ctx.params.get("pool", "")
    times = ctx.params["times"]
    counts: Counter[str] = Counter()
    for _ in range(_MOST):
        name = _pool_that_answers(ctx, request, counts) if by == "pool" else who_answers(ctx, request)
        if isinstance(name, list):
            yield from name
            return
        if by == "l4 pool":
            name = name.rpartition("-")[0]
        if not pool or name == NOBODY or name.rpartition("-")[0] == pool:
            counts[name] += 1
        if counts.total() == times:
            break
    for name, (low, high) in ctx.params["share"].items():
        if not low <= counts[name] <= high:
            yield f"{name} got {counts[name]} of {counts.total()}, expected {low} to {high}; all: {dict(counts)}"
    if unexpected := counts.keys() - ctx.params["share"].keys():
        yield f"answers of {sorted(unexpected)}, expected {sorted(ctx.params['share'])}"


def _pool_that_answers(ctx: ScriptContext, request: Request, known: Counter[str]) -> str | list[Difference]:
    """The pool that answers, or what is wrong with its first answer."""
    answer = fetch(ctx.at[request.listener], request, transport=ctx.unverified(request))
    account = account_of(answer)
    if account is None:
        return NOBODY
    name = str(account["pool"])
    if not known[name]:
        case = Case("", "", request, Expect())
        found = list(judge.differences(case, simulate(ctx.plan, request), answer, ctx.own))
        if found:
            return found
    return name


def equal_keys_stay(ctx: ScriptContext) -> Iterator[str]:
    """Requests of one key go to one endpoint, those of many keys to each of `names`. `requests`: one for each key."""
    homes = {}
    for number, request in enumerate(ctx.params["requests"]):
        names = {who_answers(ctx, request) for _ in range(3)}
        if len(names) > 1:
            yield f"key {number} went to {sorted(names)}"
            return
        homes[number] = names.pop()
    want = set(ctx.params["names"])
    if set(homes.values()) - want or (ctx.params["every"] and set(homes.values()) != want):
        yield f"{len(homes)} keys went to {sorted(set(homes.values()))}, expected {sorted(want)}"
    elif len(set(homes.values())) < 2:
        yield f"{len(homes)} keys all went to {next(iter(homes.values()))}"


def least_loaded_is_next(ctx: ScriptContext) -> Iterator[str]:
    """While one endpoint has a request under way the next ones go elsewhere, one at a time (of `names`)."""
    found = list(_beside_a_slow_one(ctx))
    if found:  # what another case left under way may have been in the way
        time.sleep(1)
        found = list(_beside_a_slow_one(ctx))
    yield from found


def _beside_a_slow_one(ctx: ScriptContext) -> Iterator[str]:
    request, names, pool = ctx.params["request"], ctx.params["names"], ctx.params.get("pool", "")
    held = _with_control(request, {"mode": "hang", "wait_ms": _HELD_MS})
    listener = ctx.plan.listener(request.listener)
    begun, busy = time.monotonic(), ""
    with ExitStack() as stack:
        for _ in range(_MOST):
            before = ctx.endpoints.heads.copy()
            client = ClientConnection(ctx.at[listener.name], client=request.client, transport=ctx.unverified(request))
            stack.enter_context(client).send(serialize(held))
            busy = _asked_since(ctx, before, names)
            if busy or not pool:
                break
        if not busy:
            yield f"no endpoint of {sorted(names)} was asked"
            return
        begun = time.monotonic()
        asked: Counter[str] = Counter()
        for _ in range(_MOST):
            name = who_answers(ctx, request)
            if not pool or name.rpartition("-")[0] == pool:
                asked[name] += 1
            if asked.total() >= 4 * len(names) or time.monotonic() - begun > _HELD_MS / 1000 - 0.2:
                break
    if asked[busy]:
        yield f"{busy} was busy with a request, and got {asked[busy]} of {asked.total()} more: {dict(asked)}"


def _asked_since(ctx: ScriptContext, before: Counter[str], names: list[str]) -> str:
    """The endpoint of `names` that has got a request since `before`; "" when none has, soon."""

    def found() -> set[str]:
        return (ctx.endpoints.heads - before).keys() & set(names)

    wait_until(lambda: bool(found()), 0.3)
    return next(iter(sorted(found())), "")


def failed_checks_take_out(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint whose checks fail is left out in time, without any request failing afterwards, and serves again in
    time once they succeed. First its checks are answered wrongly (`status` at `path`; without one it refuses
    connections), then not at all. Where it is checked on another port, that one fails."""
    name, others, request = ctx.params["name"], ctx.params["others"], ctx.params["request"]
    want = set(others) or {NOBODY}
    pool = ctx.params.get("pool", "")
    checked = f"{name}-check" if f"{name}-check" in ctx.endpoints.listening else name
    path = ctx.params["path"]

    def serving(count: int) -> set[str]:
        return names_that_answer(ctx, request, count, pool)

    seconds = ctx.params["back_ms"] / 1000
    for how, out_ms in (("wrong", ctx.params["out_ms"]), ("silent", ctx.params["silent_ms"])):
        if not wait_until(lambda: name in serving(12), seconds):
            yield f"{name} serves nothing although it is healthy"
            return
        begun = time.monotonic()
        with _failing_checks(ctx, checked, how):
            if not wait_until(lambda: serving(8) <= want, out_ms[1] / 1000):
                yield f"{out_ms[1] / 1000:.1f} s after the checks of {name} failed: {sorted(serving(12))}, " + (
                    f"expected only {sorted(want)}"
                )
            took = (time.monotonic() - begun) * 1000
            failed = [
                x for x in tuple(ctx.endpoints.seen) if x.name == checked and x.at > begun and _is(x.target, path)
            ]
        if took < out_ms[0]:
            yield f"{name} was left out {took:.0f} ms after its checks failed, expected {out_ms[0]} at least"
        elif path is not None and how == "wrong" and 0 < len(failed) < ctx.params["fall"]:
            yield f"{name} was left out after {len(failed)} failed checks, expected {ctx.params['fall']}"
        if not wait_until(lambda: name in serving(12), seconds):
            yield f"{name} is back for {seconds:.1f} s and serves nothing"
            return


def _is(target: str, path: str | None) -> bool:
    return path is not None and target.partition("?")[0] == path.partition("?")[0]


@contextmanager
def _failing_checks(ctx: ScriptContext, checked: str, how: str) -> Iterator[None]:
    path = ctx.params["path"]
    if path is None:
        ctx.endpoints.listen(checked, "refuse" if how == "wrong" else "drop")
    else:
        failing = Behaviour("fixed", status=ctx.params["status"]) if how == "wrong" else Behaviour("hang")
        ctx.endpoints.behave(checked, failing, path=path.partition("?")[0])
    try:
        yield
    finally:
        if path is None:
            ctx.endpoints.listen(checked, "yes")
            time.sleep(NOTICED)
        else:
            ctx.endpoints.behave(checked, Behaviour(), path=path.partition("?")[0])


def failures_eject(ctx: ScriptContext) -> Iterator[str]:
    """`failures` failures in a row take an endpoint out for `eject_ms`, then it serves again. Its checks (`path`)
    succeed meanwhile."""
    name, others, failures = ctx.params["name"], ctx.params["others"], ctx.params["failures"]
    request, pool, path = ctx.params["request"], ctx.params.get("pool", ""), ctx.params["path"]

    def arrived() -> int:
        return sum(1 for x in tuple(ctx.endpoints.seen) if x.name == name and not _is(x.target, path))

    if path is not None:
        ctx.endpoints.behave(name, Behaviour(), path=path.partition("?")[0])
    with behaving(ctx, name, Behaviour("close")):
        before = arrived()
        for _ in range((failures + 2) * (len(others) + 1) * (40 if pool else 4)):
            who_answers(ctx, request)
            if arrived() - before >= failures:
                break
        else:
            yield f"{name} was asked {arrived() - before} times, and fails"
            return
        time.sleep(TAKES_HOLD)
        before = arrived()
        found = names_that_answer(ctx, request, 4 * (len(others) + 1), pool)
        if arrived() > before:
            yield f"{name} failed {failures} times in a row, and was asked {arrived() - before} times more"
        elif not others and found != {NOBODY}:
            yield f"{name} failed {failures} times in a row: {sorted(found)}, expected {NOBODY}"
    time.sleep(ctx.params["eject_ms"] / 1000)
    if not wait_until(lambda: name in names_that_answer(ctx, request, 12, pool), 2):
        yield f"{name} serves nothing after {ctx.params['eject_ms']} ms"


def backups_take_over(ctx: ScriptContext) -> Iterator[str]:
    """The backups (`backups`) serve while all other endpoints (`names`) are out, and only then."""
    request, pool = ctx.params["request"], ctx.params.get("pool", "")
    names, backups = ctx.params["names"], set(ctx.params["backups"])
    path, seconds = ctx.params["path"], ctx.params["out_ms"][1] / 1000

    def serving(count: int) -> set[str]:
        return names_that_answer(ctx, request, count, pool)

    if not wait_until(lambda: not serving(12) & backups, ctx.params["back_ms"] / 1000):
        yield f"all are healthy: {sorted(serving(12))}, expected nothing from {sorted(backups)}"
        return
    with ExitStack() as stack:
        for name in names:
            checked = f"{name}-check" if f"{name}-check" in ctx.endpoints.listening else name
            if ctx.params["checked"]:
                stack.enter_context(_failing_checks(ctx, checked, "wrong"))
            if path is None or not ctx.params["checked"]:
                ctx.endpoints.listen(name, "refuse")
                stack.callback(ctx.endpoints.listen, name, "yes")
        if not wait_until(lambda: serving(8) <= backups, seconds):
            yield f"all but the backups are out: {sorted(serving(12))}, expected only {sorted(backups)}"
    if not wait_until(lambda: serving(8) <= set(names), ctx.params["back_ms"] / 1000):
        yield f"all are healthy again: {sorted(serving(12))}, expected {sorted(names)}"


def connections_are_kept(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Requests that follow each other on one connection of a client use connections that endpoints have already; with
    `keepalive` 0 each has its own. `idle_ms` after the last one, and half as much again, none of them is used."""
    count = 6 * len(ctx.params["names"])
    used, answered = _connections_used(ctx, count)
    if answered < count:
        yield f"{answered} of {count} requests on one connection reached endpoints"
    elif ctx.params["keepalive"] and len(used) > 2 * len(ctx.params["names"]):
        yield late(f"{count} requests used {len(used)} connections, expected {2 * len(ctx.params['names'])} at most")
    elif not ctx.params["keepalive"] and len(used) < count:
        yield f"{count} requests used {len(used)} connections, expected one for each"
    elif idle := ctx.params["idle_ms"] / 1000:
        time.sleep(1.5 * idle + 0.5)
        later, _ = _connections_used(ctx, count)
        if again := used & later:
            yield late(f"connections were used after {1.5 * idle:.1f} s without a request: {sorted(again)}")


def _connections_used(ctx: ScriptContext, count: int) -> tuple[set[tuple[str, int]], int]:
    """The connections to endpoints of `names` on which `count` requests came, and how many came."""
    request, pool = ctx.params["request"], ctx.params["pool"]
    used: set[tuple[str, int]] = set()
    answered = 0
    with ClientConnection(ctx.at[request.listener], client=request.client, transport=ctx.unverified(request)) as stream:
        for _ in range(_MOST if pool else count):
            account = account_of(stream.ask(request))
            if account is None or answered == count:
                break
            if account["name"] in ctx.params["names"]:
                used.add((account["name"], account["connection"]))
                answered += 1
    return used, answered


def request_is_logged(ctx: ScriptContext) -> Iterator[str]:
    """A request has a line in the access log, with its route, its status and who answered."""
    request: Request = ctx.params["request"]
    path, route = request.target.partition("?")[0], ctx.params["route"]

    def records() -> list[dict[str, object]]:
        return [dict(x) for _, x in ctx.log() if x.get("path") == path and x.get("listener") == request.listener]

    before = len(records())
    answer = fetch(ctx.at[request.listener], request, transport=ctx.unverified(request))
    if not wait_until(lambda: len(records()) > before, 6):
        yield f"no line in the access log for {request.method} {path}"
        return
    record = records()[-1]
    for key, want in (("status", answer.status), ("method", request.method), ("route", route)):
        if record.get(key) != want:
            yield f"the access log says {key} {record.get(key)!r}, expected {want!r}"


def _with_control(request: Request, behaviour: dict[str, object]) -> Request:
    return replace(request, headers=(*request.headers, (CONTROL, json.dumps(behaviour))))


def fewest_connections_are_next(ctx: ScriptContext) -> Iterator[str]:
    """Connections that stay open are spread evenly over `names`; when those to one endpoint end, it gets the next."""
    names = ctx.params["names"]
    held: list[tuple[str, ClientConnection]] = []
    try:
        for _ in range(3 * len(names)):
            held.append(_open_connection(ctx))
        found = Counter(name for name, _ in held)
        if found != Counter(dict.fromkeys(names, 3)):
            yield f"{len(held)} open connections: {dict(found)}, expected 3 for each of {sorted(names)}"
            return
        for name, stream in held:
            if name == names[0]:
                stream.sock.close()
        time.sleep(HANDOVER)
        held = [(name, stream) for name, stream in held if name != names[0]]
        after = [_open_connection(ctx) for _ in range(3)]
        held += after
        if {name for name, _ in after} != {names[0]}:
            yield f"all connections to {names[0]} have ended, and the next go to {[name for name, _ in after]}"
    finally:
        for _, stream in held:
            stream.sock.close()


def _open_connection(ctx: ScriptContext) -> tuple[str, ClientConnection]:
    """A connection that stays open, and the endpoint that it goes to."""
    request = ctx.params["request"]
    stream = ClientConnection(ctx.at[request.listener], client=request.client, transport=ctx.unverified(request))
    account = account_of(stream.ask(request))
    return NOBODY if account is None else str(account["name"]), stream


def unreachable_endpoints(ctx: ScriptContext) -> Iterator[Difference | str]:
    """While no endpoint of `names` can be reached (`how`: they refuse or drop connections) a request is answered with
    a failure in time; `heal_ms` after they are back they serve."""
    request, names = ctx.params["request"], ctx.params["names"]
    low, high = ctx.params["within_ms"]
    every = [x for x in (*names, *(f"{name}-check" for name in names)) if x in ctx.endpoints.listening]
    for name in every:
        ctx.endpoints.listen(name, ctx.params["how"])
    try:
        begun = time.monotonic()
        answer = fetch(ctx.at[request.listener], request, transport=ctx.unverified(request), timeout=high / 1000 + 2)
        took = (time.monotonic() - begun) * 1000
    finally:
        for name in every:
            ctx.endpoints.listen(name, "yes")
    time.sleep(NOTICED)
    if account_of(answer) is not None or not is_own_status(answer.status, 502):
        yield f"no endpoint can be reached: status {answer.status} {answer.problem}, expected 502, 503 or 504"
    elif not low <= took <= high:
        yield late(f"took {took:.0f} ms, expected {low} to {high}")
    if not wait_until(lambda: who_answers(ctx, request) in names, ctx.params["heal_ms"] / 1000):
        yield f"{ctx.params['heal_ms']} ms after the endpoints are back: {who_answers(ctx, request)}"


def proxy_header_arrives(ctx: ScriptContext) -> Iterator[str]:
    """The endpoint gets a PROXY header of the pool's version (`version`) that names the client."""
    request, version = ctx.params["request"], ctx.params["version"]
    answer = fetch(ctx.at[request.listener], request, transport=ctx.unverified(request))
    account = account_of(answer)
    if account is None or account["proxy"] is None:
        yield f"status {answer.status} {answer.problem}, no PROXY header arrived"
    elif (account["proxy"]["version"], account["proxy"]["source"]) != (version, request.client):
        yield f"the endpoint got the PROXY header {account['proxy']}, expected version {version} and {request.client}"


def datagram_flows_end(ctx: ScriptContext) -> Iterator[str]:
    """Datagrams of one client port go to one endpoint; after the idle time a flow is a new one, which goes to the
    endpoint whose turn it is."""
    request, count = ctx.params["request"], ctx.params["count"]
    low, high = ctx.params["within_ms"]
    address = ctx.at[request.listener]
    with ExitStack() as stack:
        flows = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2 * count + 1)]
        for flow in flows:
            flow.bind((request.client, 0))
            flow.settimeout(1)
            flow.connect(address)
        first = [_name_of_datagram(flow) for flow in flows]
        time.sleep(low / 1000 * 0.6)
        if (kept := [_name_of_datagram(flow) for flow in flows]) != first:
            yield f"within the idle time flows went to {kept}, before to {first}"
            return
        time.sleep(high / 1000 + 1)
        if (now := [_name_of_datagram(flow) for flow in flows]) == first:
            yield f"after the idle time flows go where they went: {now}"


def _name_of_datagram(flow: socket.socket) -> str:
    try:
        flow.send(b"x")
        return flow.recv(1_000).partition(b": ")[0].decode()
    except (TimeoutError, ConnectionRefusedError):
        return NOBODY
