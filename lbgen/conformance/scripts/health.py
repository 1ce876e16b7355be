"""Active and passive health checks of endpoints that fail and recover."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from lbgen.conformance.http1_client import ClientConnection, fetch
from lbgen.conformance.scripts.context import (
    CHECK,
    HANDOVER,
    OK,
    TAKES_HOLD,
    ScriptContext,
    break_endpoint,
    broken_endpoint,
    count_answers,
    get,
    listener_of,
    own_status,
    reaches_endpoint,
    restore_endpoint,
    unavailable_answer,
    wait_until,
)
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.stand_in import Behaviour


def checked_out_and_back(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint (one of two) that fails its checks gets no request; once it passes them again it does."""
    pool, how = ctx.params["pool"], ctx.params["how"]
    broken, healthy, target = f"{pool}-0", f"{pool}-1", f"/{pool}"
    if not wait_until(lambda: count_answers(ctx, target, 6)[broken] > 0):
        yield f"{broken} gets no request at the start: {dict(count_answers(ctx, target, 6))}"
        return
    with broken_endpoint(ctx, broken, how):
        if not wait_until(lambda: count_answers(ctx, target, 6)[healthy] == 6):
            yield f"{how}: {broken} is not taken out: {dict(count_answers(ctx, target, 10))}"
            return
        time.sleep(HANDOVER)
        found = count_answers(ctx, target, 20)
        if found[healthy] != 20:
            yield f"{how}: out, but requests went to {dict(found)}, expected all to {healthy}"
    if not wait_until(lambda: count_answers(ctx, target, 6)[broken] > 0):
        yield f"{how}: {broken} is healthy again and gets no request: {dict(count_answers(ctx, target, 10))}"


def kept_connections_survive(ctx: ScriptContext) -> Iterator[str]:
    """While checks take an endpoint out and bring it back, every request on busy kept connections is answered."""
    pool = ctx.params["pool"]
    broken, target = f"{pool}-0", f"/{pool}"
    found: Counter[str] = Counter()
    kept: list[ClientConnection | None] = [None] * 8
    try:
        for status in (500, 200) * 3:
            ctx.endpoints.behave(broken, Behaviour("fixed", status=status), path=CHECK)
            end = time.monotonic() + 1.2
            while time.monotonic() < end:
                for number, open_one in enumerate(kept):
                    stream = open_one or ClientConnection(ctx.at["web"], timeout=30)
                    answer = stream.ask(get(target))
                    found[str(answer.status or "no answer")] += 1
                    ends = answer.status is None or (answer.header("connection") or "").lower() == "close"
                    if ends:
                        stream.sock.close()
                    kept[number] = None if ends else stream
                time.sleep(0.03)  # each is busy, and the machine is not
    finally:
        for left in kept:
            if left is not None:
                left.sock.close()
        restore_endpoint(ctx, broken)
    if found.keys() != {"200"}:
        yield f"answers on kept connections: {dict(found)}, expected 200 alone"


def all_checked_out(ctx: ScriptContext) -> Iterator[str]:
    """With every endpoint out a request gets 503 (at L4 its connection is closed) at once and reaches none."""
    pool = ctx.params["pool"]
    names, target = (f"{pool}-0", f"{pool}-1"), f"/{pool}"
    none_left = unavailable_answer(ctx)
    with broken_endpoint(ctx, names[0], "check 500"), broken_endpoint(ctx, names[1], "check 500"):
        if not wait_until(lambda: count_answers(ctx, target, 3) == {none_left: 3}):
            yield f"all checks fail: {dict(count_answers(ctx, target, 6))}, expected {none_left}"
            return
        time.sleep(HANDOVER)
        begun = time.monotonic()
        answer = fetch(ctx.at[listener_of(ctx)], get(target))
        if str(own_status(answer, 503)) != none_left or answer.elapsed > 0.5:
            yield f"status {answer.status} after {answer.elapsed:.1f} s, expected {none_left} at once"
        if any(seen.target == target and seen.at >= begun for seen in tuple(ctx.endpoints.seen)):
            yield "an endpoint that is out was asked"
    if not wait_until(lambda: set(count_answers(ctx, target, 6)) == set(names)):
        yield f"all are healthy again: {dict(count_answers(ctx, target, 6))}"


def check_is_as_asked(ctx: ScriptContext) -> Iterator[str]:
    """A check is GET with the path and query of `active.path`, about as often as `interval` (200 ms) says."""
    names = [f"{ctx.params['pool']}-{n}" for n in (0, 1)]
    begun = time.monotonic()
    time.sleep(2)
    for name in names:
        found = [s for s in tuple(ctx.endpoints.seen) if s.name == name and s.target.startswith("/healthz")]
        odd = {(s.method, s.target) for s in found} - {("GET", ctx.params["target"])}
        if odd:
            yield f"{name} was checked by {sorted(odd)}, expected GET {ctx.params['target']}"
        count = sum(s.at >= begun for s in found)
        if not 4 <= count <= 16:
            yield f"{name} was checked {count} times in 2 s, expected about 10"


def fall_and_rise(ctx: ScriptContext) -> Iterator[str]:
    """Fewer failed checks than `fall` (3) take nothing out, fewer good ones than `rise` (3) bring nothing back."""
    pool = ctx.params["pool"]
    broken, target = f"{pool}-0", f"/{pool}"

    def checks() -> int:
        return sum(s.name == broken and s.target == CHECK for s in tuple(ctx.endpoints.seen))

    def some_checks(count: int) -> None:
        until = checks() + count
        wait_until(lambda: checks() >= until)

    try:
        some_checks(3)
        break_endpoint(ctx, broken, "check 500")
        some_checks(1)
        ctx.endpoints.behave(broken, OK, path=CHECK)
        some_checks(2)
        if not count_answers(ctx, target, 8)[broken]:
            yield "one or two failed checks took the endpoint out, fall is 3"
        break_endpoint(ctx, broken, "check 500")
        if not wait_until(lambda: not count_answers(ctx, target, 6)[broken]):
            yield "failed checks did not take the endpoint out"
            return
        ctx.endpoints.behave(broken, OK, path=CHECK)
        some_checks(1)
        ctx.endpoints.behave(broken, Behaviour("fixed", status=500), path=CHECK)  # at once
        some_checks(2)
        if count_answers(ctx, target, 8)[broken]:
            yield "one or two good checks brought the endpoint back, rise is 3"
    finally:
        restore_endpoint(ctx, broken)
    if not wait_until(lambda: count_answers(ctx, target, 6)[broken] > 0):
        yield "good checks did not bring the endpoint back"


def check_port(ctx: ScriptContext) -> Iterator[str]:
    """With `port` the check goes there: what listens there decides, not the endpoint's own port."""
    pool = ctx.params["pool"]
    checker, target = ctx.params["checker"], f"/{pool}"
    if not wait_until(lambda: count_answers(ctx, target, 4)["503"] == 0):
        yield f"the check port is healthy: {dict(count_answers(ctx, target, 4))}"
    with broken_endpoint(ctx, checker, "check 500"):
        if not wait_until(lambda: count_answers(ctx, target, 3) == {"503": 3}):
            yield f"the check port says 500, answers {dict(count_answers(ctx, target, 6))}, expected 503"
    if not wait_until(lambda: count_answers(ctx, target, 4)["503"] == 0):
        yield f"the check port is healthy again: {dict(count_answers(ctx, target, 4))}"


def first_check_decides(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint that was never healthy is out after one check (`fall` is 20, a second apart)."""
    target = f"/{ctx.params['pool']}"
    if not wait_until(lambda: count_answers(ctx, target, 1)["503"] == 1):
        yield f"an endpoint that was never healthy: {dict(count_answers(ctx, target, 4))}, expected 503"


def ejected_and_back(ctx: ScriptContext) -> Iterator[str]:
    """So many failures in a row (3 unless told) eject an endpoint for `eject_for` (1500 ms), then it serves again."""
    pool, how, most = ctx.params["pool"], ctx.params["how"], ctx.params.get("failures", 3)
    broken, healthy, target = f"{pool}-0", f"{pool}-1", f"/{pool}"
    if not wait_until(lambda: count_answers(ctx, target, 4)[broken] > 0):
        yield f"{broken} gets no request at the start"
        return
    if how.isdigit():
        ctx.endpoints.behave(broken, Behaviour("fixed", status=int(how), body="own\n"))
    else:
        break_endpoint(ctx, broken, how)
    failed = 0
    try:
        for _ in range(20):
            failed += not count_answers(ctx, target, 1)[healthy]
            if failed == most:
                break
        begun = time.monotonic()
        time.sleep(TAKES_HOLD)
        found = count_answers(ctx, target, 12)
        if time.monotonic() - begun < 1.2 and found[healthy] != 12:
            yield f"{how}: after {failed} failures answers were {dict(found)}, expected all from {healthy}"
    finally:
        restore_endpoint(ctx, broken)
    if not wait_until(lambda: count_answers(ctx, target, 4)[broken] > 0):
        yield f"{how}: {broken} is healthy and its time is over, and it gets no request"
    elif time.monotonic() - begun < 1.1:
        yield f"{how}: {broken} came back after {time.monotonic() - begun:.1f} s, expected 1.5 s"


def success_resets(ctx: ScriptContext) -> Iterator[str]:
    """Failures count in a row: a success between them starts anew. `pool` has one endpoint."""
    target = f"/{ctx.params['pool']}"
    failing = (CONTROL, '{"mode": "close"}')
    for number in range(4):
        answers = [fetch(ctx.at["web"], get(target, *more)) for more in ((failing,), (failing,), ())]
        found = [own_status(answer, 502) for answer in answers]
        if found != [502, 502, 200]:
            yield f"two failures and a success, round {number + 1}: {found}, expected 502, 502, 200"
            return
    found = [own_status(fetch(ctx.at["web"], get(target, failing)), 502) for _ in range(3)]
    asked = ctx.endpoints.requests[f"{ctx.params['pool']}-0"]
    time.sleep(TAKES_HOLD)
    answer = fetch(ctx.at["web"], get(target))
    if found != [502, 502, 502] or own_status(answer, 503) != 503:
        yield f"three failures in a row: {found}, then {answer.status}, expected 503"
    if ctx.endpoints.requests[f"{ctx.params['pool']}-0"] != asked:
        yield "an ejected endpoint was asked"
    if answer.elapsed > 0.5:
        yield f"503 after {answer.elapsed:.1f} s, expected at once"
    if not wait_until(lambda: count_answers(ctx, target, 1)["503"] == 0):
        yield "it is not back after its time"


def not_a_failure(ctx: ScriptContext) -> Iterator[str]:
    """A 4xx of an endpoint ejects nothing."""
    target = f"/{ctx.params['pool']}"
    asks = get(target, (CONTROL, '{"mode": "fixed", "status": 404}'))
    found = [fetch(ctx.at["web"], asks).status for _ in range(8)]
    if found != [404] * 8:
        yield f"eight 404 of an endpoint: {found}"


def all_ejected(ctx: ScriptContext) -> Iterator[str]:
    """All ejected = 503 at once, nothing reaches an endpoint, and after `eject_for` they are back."""
    pool = ctx.params["pool"]
    target = f"/{pool}"
    failing = get(target, (CONTROL, '{"mode": "reset"}'))
    for _ in range(12):
        if not reaches_endpoint(ctx, failing):
            break
    begun = time.monotonic()
    time.sleep(TAKES_HOLD)
    asked = sum(ctx.endpoints.requests.values())
    found = count_answers(ctx, target, 6)
    if time.monotonic() - begun < 1.0:
        if found != {"503": 6}:
            yield f"both endpoints failed three times in a row: {dict(found)}, expected 503"
        if sum(ctx.endpoints.requests.values()) != asked:
            yield "an ejected endpoint was asked"
    if not wait_until(lambda: count_answers(ctx, target, 4)["503"] == 0):
        yield "they are not back after their time"


def expected_statuses(ctx: ScriptContext) -> Iterator[str]:
    """Statuses that `expect` names (404 and 503 here) are as good as 200."""
    pool = ctx.params["pool"]
    target, check = f"/{pool}", "/healthz"
    try:
        ctx.endpoints.behave(f"{pool}-0", Behaviour("fixed", status=404), path=check)
        ctx.endpoints.behave(f"{pool}-1", Behaviour("fixed", status=503), path=check)
        time.sleep(1.2)
        found = count_answers(ctx, target, 8)
        if set(found) != {f"{pool}-0", f"{pool}-1"}:
            yield f"checks answered by 404 and 503, which are expected: {dict(found)}"
    finally:
        for name in (f"{pool}-0", f"{pool}-1"):
            restore_endpoint(ctx, name)


def tries_count(ctx: ScriptContext) -> Iterator[str]:
    """A try that a retry makes good counts as a failure of its endpoint all the same (`failures: 1`)."""
    pool = ctx.params["pool"]
    broken, target = f"{pool}-0", f"/{pool}"
    with broken_endpoint(ctx, broken, "reset"):
        found = count_answers(ctx, target, 10)
        asked = ctx.endpoints.requests[broken]
        if found != {f"{pool}-1": 10}:
            yield f"one of two fails, with a retry: {dict(found)}, expected 10 answers of {pool}-1"
        if asked != 1:
            yield f"the failing endpoint was asked {asked} times in a row, expected once"
