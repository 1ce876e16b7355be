"""Checks of any pool: shares, keys, health checks, backups, connections to endpoints; at layer 4 as well.

`request` is one that reaches the pool; of a route with several pools, `pool` is the one whose answers count.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lbgen.conformance import judge
from lbgen.conformance.case import Case, Expect
from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import ClientConnection, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    HANDOVER,
    NOBODY,
    TAKES_HOLD,
    MismatchError,
    ScriptContext,
    behaving,
    names_that_answer,
    require,
    wait_until,
    who_answers,
    with_control,
)
from lbgen.conformance.scripts.topology_timeouts import NOTICED
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate
from lbgen.runtime.standins.stand_in import Behaviour

_MOST = 1_600  # requests that wait for answers of a rare pool
_RAISED = 1.2  # seconds after a slow start until an engine that looks once a second has raised the share
_EASED = 60  # requests whose shares are counted in a slow start, and after it
_HELD_MS = 1_500  # for which an endpoint keeps its client waiting


def shares_hold(ctx: ScriptContext) -> Iterator[Difference | str]:
    """Of `times` requests each pool (`by`: pool, `l4 pool`) or endpoint (name) gets its share, five deviations off at
    most. What each pool gets is what the oracle says."""
    request, by, pool = ctx.params["request"], ctx.params["by"], ctx.params.get("pool", "")
    share, counts = ctx.params["share"], Counter[str]()
    for _ in range(_MOST):
        if by == "pool":
            answer = ctx.ask(request)
            account = account_of(answer)
            name = NOBODY if account is None else str(account["pool"])
            if account is not None and not counts[name]:
                case = Case("", "", request, Expect())
                found = list(judge.differences(case, simulate(ctx.plan, request), answer, ctx.own))
                if found:
                    yield from found
                    return
        else:
            name = who_answers(ctx, request)
            name = name.rpartition("-")[0] if by == "l4 pool" else name
        if not pool or name == NOBODY or name.rpartition("-")[0] == pool:
            counts[name] += 1
        if counts.total() == ctx.params["times"]:
            break
    for name, (low, high) in share.items():
        if not low <= counts[name] <= high:
            yield f"{name} got {counts[name]} of {counts.total()}, expected {low} to {high}; all: {dict(counts)}"
    if unexpected := counts.keys() - share.keys():
        yield f"answers of {sorted(unexpected)}, expected {sorted(share)}"


def equal_keys_stay(ctx: ScriptContext) -> None:
    """Requests of one key go to one endpoint, those of many keys to each of `names`. `requests`: one for each key."""
    homes: set[str] = set()
    for number, request in enumerate(ctx.params["requests"]):
        names = {who_answers(ctx, request) for _ in range(3)}
        require(len(names) == 1, f"key {number} went to {sorted(names)}")
        homes |= names
    want, count = set(ctx.params["names"]), len(ctx.params["requests"])
    fits = homes == want if ctx.params["every"] else homes <= want
    require(fits, f"{count} keys went to {sorted(homes)}, expected {sorted(want)}")
    require(len(homes) > 1, f"{count} keys all went to {sorted(homes)}")


def least_loaded_is_next(ctx: ScriptContext) -> None:
    """While one endpoint has a request under way the next ones go elsewhere, one at a time (of `names`)."""
    try:
        _beside_a_slow_one(ctx)
    except MismatchError:  # what another case left under way may have been in the way
        time.sleep(1)
        _beside_a_slow_one(ctx)


def _beside_a_slow_one(ctx: ScriptContext) -> None:
    request, names, pool = ctx.params["request"], ctx.params["names"], ctx.params.get("pool", "")
    busy: set[str] = set()
    with ExitStack() as stack:
        for _ in range(_MOST):
            before = ctx.endpoints.heads.copy()
            held = with_control(request, mode="hang", wait_ms=_HELD_MS)
            stack.enter_context(ctx.connect(request)).send(serialize(held))

            def asked_since(before: Counter[str] = before) -> set[str]:
                return (ctx.endpoints.heads - before).keys() & set(names)

            wait_until(asked_since, 0.3)
            busy = asked_since()
            if busy or not pool:
                break
        require(busy, f"no endpoint of {sorted(names)} was asked")
        begun, asked = time.monotonic(), Counter[str]()
        for _ in range(_MOST):
            name = who_answers(ctx, request)
            if not pool or name.rpartition("-")[0] == pool:
                asked[name] += 1
            if asked.total() >= 4 * len(names) or time.monotonic() - begun > _HELD_MS / 1000 - 0.2:
                break
    first = min(busy)
    sentence = f"{first} was busy with a request, and got {asked[first]} of {asked.total()} more: {dict(asked)}"
    require(not asked[first], sentence)


def failed_checks_take_out(ctx: ScriptContext) -> None:
    """An endpoint whose checks fail is left out in time, without any request failing afterwards, and serves again in
    time once they succeed, with all of its share after `slow_ms`. First its checks are answered wrongly (`status` at
    `path`; without one it refuses connections), then not at all. Where it is checked on another port, that one
    fails."""
    name, path, seconds = ctx.params["name"], ctx.params["path"], ctx.params["back_ms"] / 1000
    want, checked = set(ctx.params["others"]) or {NOBODY}, _checked(ctx, name)
    for how, out_ms in (("wrong", ctx.params["out_ms"]), ("silent", ctx.params["silent_ms"])):
        healthy = wait_until(lambda: name in _serving(ctx, 12), seconds)
        require(healthy, f"{name} serves nothing although it is healthy")
        if ctx.params["slow_ms"]:  # until then it may get little, which looks as if it were out
            time.sleep(ctx.params["slow_ms"] / 1000 + _RAISED)
        begun = time.monotonic()
        with _failing_checks(ctx, checked, how):
            out = wait_until(lambda: _serving(ctx, 8) <= want, out_ms[1] / 1000)
            took = (time.monotonic() - begun) * 1000
            failed = sum(x.name == checked and x.at > begun and _is(x.target, path) for x in tuple(ctx.endpoints.seen))
            what = f"{out_ms[1] / 1000:.1f} s after the checks of {name} failed"
            require(out, f"{what}: {sorted(_serving(ctx, 12))}, expected only {sorted(want)}")
        in_time = took >= out_ms[0]
        require(in_time, f"{name} was left out {took:.0f} ms after its checks failed, expected {out_ms[0]} at least")
        enough = how != "wrong" or not 0 < failed < ctx.params["fall"]
        require(enough, f"{name} was left out after {failed} failed checks, expected {ctx.params['fall']}")
        back = wait_until(lambda: name in _serving(ctx, 12), seconds)
        require(back, f"{name} is back for {seconds:.1f} s and serves nothing")


def _serving(ctx: ScriptContext, count: int) -> set[str]:
    return names_that_answer(ctx, ctx.params["request"], count, ctx.params.get("pool", ""))


def _checked(ctx: ScriptContext, name: str) -> str:
    """Where an endpoint is checked."""
    return f"{name}-check" if f"{name}-check" in ctx.endpoints.listening else name


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


def endpoint_is_eased_in(ctx: ScriptContext) -> None:
    """An endpoint whose checks failed gets well below its `share` of requests in the first third of the slow start
    (`slow_ms`), and all of it afterwards."""
    name, share, slow = ctx.params["name"], ctx.params["share"], ctx.params["slow_ms"] / 1000
    others = set(ctx.params["others"])
    with _failing_checks(ctx, _checked(ctx, name), "wrong"):
        out = wait_until(lambda: _serving(ctx, 8) <= others, ctx.params["out_ms"][1] / 1000)
        require(out, f"{name} fails its checks and is not left out")
    require(wait_until(lambda: name in _serving(ctx, 4), ctx.params["back_ms"] / 1000), f"{name} does not come back")
    end, early = time.monotonic() + slow / 3, Counter[str]()
    while time.monotonic() < end and early.total() < _EASED:
        early[who_answers(ctx, ctx.params["request"])] += 1
    time.sleep(max(0.0, end - time.monotonic()))
    sentence = f"just back, {name} got {early[name]} of {early.total()}, expected well below {share:.0%}"
    require(early[name] <= 0.75 * share * early.total(), sentence)
    time.sleep(slow)
    late = Counter(who_answers(ctx, ctx.params["request"]) for _ in range(_EASED))
    enough = 0.65 * share * _EASED <= late[name]
    require(enough, f"after the slow start {name} got {late[name]} of {_EASED}, expected {share:.0%}")


def failures_eject(ctx: ScriptContext) -> None:
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
        came = arrived() - before
        require(came >= failures, f"{name} was asked {came} times, and fails")
        for most in (1, 0):  # an engine may leave out one failure, such as the end of a kept connection
            time.sleep(TAKES_HOLD)
            before = arrived()
            found, more = _serving(ctx, 4 * (len(others) + 1)), arrived() - before
            require(more <= most, f"{name} failed {failures} times in a row, and was asked {more} times more")
        alone = others or found == {NOBODY}
        require(alone, f"{name} failed {failures} times in a row: {sorted(found)}, expected {NOBODY}")
    time.sleep(ctx.params["eject_ms"] / 1000)
    back = wait_until(lambda: name in _serving(ctx, 12), 2)
    require(back, f"{name} serves nothing after {ctx.params['eject_ms']} ms")


def backups_take_over(ctx: ScriptContext) -> None:
    """The backups (`backups`) serve while all other endpoints (`names`) are out, and only then."""
    names, backups = ctx.params["names"], set(ctx.params["backups"])
    path, seconds = ctx.params["path"], ctx.params["back_ms"] / 1000

    def settles(count: int, expected: set[str], what: str, within: float) -> None:
        fits = wait_until(lambda: _serving(ctx, count) <= expected, within)
        require(fits, f"{what}: {sorted(_serving(ctx, 12))}, expected only {sorted(expected)}")

    quiet = wait_until(lambda: not _serving(ctx, 12) & backups, seconds)
    require(quiet, f"all are healthy: {sorted(_serving(ctx, 12))}, expected nothing from {sorted(backups)}")
    with ExitStack() as stack:
        for name in names:
            if ctx.params["checked"]:
                stack.enter_context(_failing_checks(ctx, _checked(ctx, name), "wrong"))
            if path is None or not ctx.params["checked"]:
                ctx.endpoints.listen(name, "refuse")
                stack.callback(ctx.endpoints.listen, name, "yes")
        settles(8, backups, "all but the backups are out", ctx.params["out_ms"][1] / 1000)
    settles(8, set(names), "all are healthy again", seconds)


def connections_are_kept(ctx: ScriptContext) -> None:
    """Requests that follow each other on one connection of a client use connections that endpoints of `names` have
    already; with `keepalive` 0 each has its own. `idle_ms` after the last one, and half as much again, none of them is
    used. `path`: that of their checks, which do not count."""
    count, most, idle = 6 * len(ctx.params["names"]), 2 * len(ctx.params["names"]), ctx.params["idle_ms"] / 1000
    used, arrived = _connections_used(ctx, count)
    require(arrived >= count, f"{arrived} requests on one connection reached endpoints, expected {count}")
    what = f"{arrived} requests used {len(used)} connections"
    if not ctx.params["keepalive"]:
        require(len(used) == arrived, f"{what}, expected one for each")
    else:
        require(len(used) <= most, late(f"{what}, expected {most} at most"))
    if idle:
        time.sleep(1.5 * idle + 0.5)
        again = used & _connections_used(ctx, count)[0]
        sentence = f"connections were used after {1.5 * idle:.1f} s without a request: {sorted(again)}"
        require(not again, late(sentence))


def _connections_used(ctx: ScriptContext, count: int) -> tuple[set[tuple[str, int]], int]:
    """The connections on which requests came to endpoints of `names`, `count` at least, and how many came."""
    names, path, begun = set(ctx.params["names"]), ctx.params["path"], time.monotonic()

    def came() -> list[tuple[str, int]]:
        seen = (x for x in tuple(ctx.endpoints.seen) if x.at >= begun and x.name in names)
        return [(x.name, x.connection) for x in seen if x.target != path]

    with ctx.connect(ctx.params["request"]) as stream:
        for _ in range(_MOST):
            if stream.ask(ctx.params["request"]).status is None or len(came()) >= count:
                break
    wait_until(lambda: len(came()) >= count, 1)  # copies come later
    found = came()
    return set(found), len(found)


def request_is_logged(ctx: ScriptContext) -> Iterator[str]:
    """A request has a line in the access log, with its route, its status and who answered."""
    request: Request = ctx.params["request"]
    path, route = request.target.partition("?")[0], ctx.params["route"]

    def records() -> list[dict[str, object]]:
        return [dict(x) for _, x in ctx.log() if x.get("path") == path and x.get("listener") == request.listener]

    before = len(records())
    answer = ctx.ask(request)
    if not wait_until(lambda: len(records()) > before, 6):
        yield f"no line in the access log for {request.method} {path}"
        return
    record = records()[-1]
    for key, want in (("status", answer.status), ("method", request.method), ("route", route)):
        if record.get(key) != want:
            yield f"the access log says {key} {record.get(key)!r}, expected {want!r}"


def fewest_connections_are_next(ctx: ScriptContext) -> None:
    """Connections that stay open are spread evenly over `names`; when those to one endpoint end, it gets the next."""
    names = ctx.params["names"]
    held: list[tuple[str, ClientConnection]] = []
    try:
        for _ in range(3 * len(names)):
            held.append(_open_connection(ctx))
        found = Counter(name for name, _ in held)
        even = found == Counter(dict.fromkeys(names, 3))
        require(even, f"{len(held)} open connections: {dict(found)}, expected 3 for each of {sorted(names)}")
        for name, stream in held:
            if name == names[0]:
                stream.sock.close()
        time.sleep(HANDOVER)
        held = [(name, stream) for name, stream in held if name != names[0]]
        after = [_open_connection(ctx) for _ in range(3)]
        held += after
        went = [name for name, _ in after]
        require(set(went) == {names[0]}, f"all connections to {names[0]} have ended, and the next go to {went}")
    finally:
        for _, stream in held:
            stream.sock.close()


def _open_connection(ctx: ScriptContext) -> tuple[str, ClientConnection]:
    """A connection that stays open, and the endpoint that it goes to."""
    request = ctx.params["request"]
    stream = ctx.connect(request)
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
        answer = ctx.ask(request, timeout=high / 1000 + 2)
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


def proxy_header_arrives(ctx: ScriptContext) -> None:
    """The endpoint gets a PROXY header of the pool's version (`version`) that names the client."""
    request, version = ctx.params["request"], ctx.params["version"]
    answer = ctx.ask(request)
    account = account_of(answer)
    header = account and account["proxy"]
    require(header, f"status {answer.status} {answer.problem}, no PROXY header arrived")
    right = header and (header["version"], header["source"]) == (version, request.client)
    require(right, f"the endpoint got the PROXY header {header}, expected version {version} and {request.client}")


def datagram_flows_end(ctx: ScriptContext) -> None:
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
        kept = [_name_of_datagram(flow) for flow in flows]
        require(kept == first, f"within the idle time flows went to {kept}, before to {first}")
        time.sleep(high / 1000 + 1)
        now = [_name_of_datagram(flow) for flow in flows]
        require(now != first, f"after the idle time flows go where they went: {now}")


def _name_of_datagram(flow: socket.socket) -> str:
    try:
        flow.send(b"x")
        return flow.recv(1_000).partition(b": ")[0].decode()
    except (TimeoutError, ConnectionRefusedError):
        return NOBODY
