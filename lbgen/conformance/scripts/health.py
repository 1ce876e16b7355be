"""Health checks, ejections, backups and slow start: endpoints fail and recover, and it is counted who answers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.conformance.scripts.context import (
    CHECK,
    HANDOVER,
    OK,
    TAKES_HOLD,
    ScriptContext,
    behaving,
    break_endpoint,
    broken_endpoint,
    count_answers,
    eventually,
    get,
    held,
    own_status,
    require,
    restore_endpoint,
    wait_until,
)
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.http1_client import ClientConnection


def checked_out_and_back(ctx: ScriptContext) -> None:
    """An endpoint (one of two) that fails its checks gets no request; once it passes them again it does."""
    how, broken, healthy = ctx.params["how"], ctx.endpoint(0), ctx.endpoint(1)
    eventually(ctx, 6, lambda found: found[broken], f"{broken} gets no request at the start")
    with broken_endpoint(ctx, broken, how):
        eventually(ctx, 6, lambda found: found[healthy] == 6, f"{how}: {broken} is not taken out")
        time.sleep(HANDOVER)
        found = count_answers(ctx, 20)
        require(not found[broken], f"{how}: out, but requests went to {dict(found)}, expected all to {healthy}")
        # Where the machine is late, checks of the healthy one fail too, or old workers serve longer.
        eventually(ctx, 20, lambda found: found[healthy] == 20, f"{how}: not all requests go to {healthy}")
    eventually(ctx, 6, lambda found: found[broken], f"{how}: {broken} is healthy again and gets no request")


def kept_connections_survive(ctx: ScriptContext) -> None:
    """While checks take an endpoint out and bring it back, every request on busy kept connections is answered."""
    broken = ctx.endpoint(0)
    found: Counter[str] = Counter()
    kept: list[tuple[ClientConnection, float] | None] = [None] * 8  # and when they were asked
    try:
        for status in (500, 200) * 3:
            ctx.endpoints.behave(broken, Behaviour("fixed", status=status), path=CHECK)
            end = time.monotonic() + 1.2
            while time.monotonic() < end:
                for number, open_one in enumerate(kept):
                    stream, asked = open_one or (ctx.connect(timeout=30), time.monotonic())
                    idle, asked = time.monotonic() - asked, time.monotonic()
                    answer = stream.ask(get(ctx.target))
                    if answer.status is not None or idle < 0.5:  # else the machine was busy, not the connection
                        found[str(answer.status or "no answer")] += 1
                    ends = answer.status is None or (answer.header("connection") or "").lower() == "close"
                    if ends:
                        stream.sock.close()
                    kept[number] = None if ends else (stream, asked)
                time.sleep(0.03)  # each is busy, and the machine is not
    finally:
        for left in kept:
            if left is not None:
                left[0].sock.close()
        restore_endpoint(ctx, broken)
    require(found.keys() == {"200"}, f"answers on kept connections: {dict(found)}, expected 200 alone")


def check_is_as_asked(ctx: ScriptContext) -> Iterator[str]:
    """A check is GET with the path and query of `active.path`, about as often as `interval` (200 ms) says."""
    begun = time.monotonic()
    time.sleep(2)
    for name in (ctx.endpoint(0), ctx.endpoint(1)):
        found = [s for s in tuple(ctx.endpoints.seen) if s.name == name and s.target.startswith(CHECK)]
        if odd := {(s.method, s.target) for s in found} - {("GET", ctx.params["check"])}:
            yield f"{name} was checked by {sorted(odd)}, expected GET {ctx.params['check']}"
        count = sum(s.at >= begun for s in found)
        if not 4 <= count <= 16:
            yield f"{name} was checked {count} times in 2 s, expected about 10"


def fall_and_rise(ctx: ScriptContext) -> None:
    """Fewer failed checks than `fall` (3) take nothing out, fewer good ones than `rise` (3) bring nothing back."""
    broken = ctx.endpoint(0)

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
        require(count_answers(ctx, 8)[broken], "one or two failed checks took the endpoint out, fall is 3")
        break_endpoint(ctx, broken, "check 500")
        eventually(ctx, 6, lambda found: not found[broken], "failed checks did not take the endpoint out")
        ctx.endpoints.behave(broken, OK, path=CHECK)
        some_checks(1)
        ctx.endpoints.behave(broken, Behaviour("fixed", status=500), path=CHECK)  # at once
        some_checks(2)
        require(not count_answers(ctx, 8)[broken], "one or two good checks brought the endpoint back, rise is 3")
    finally:
        restore_endpoint(ctx, broken)
    eventually(ctx, 6, lambda found: found[broken], "good checks did not bring the endpoint back")


def ejected_and_back(ctx: ScriptContext) -> None:
    """So many failures in a row (3 unless told) eject an endpoint for `eject_for` (1500 ms), then it serves again."""
    how, most = ctx.params["how"], ctx.params.get("failures", 3)
    broken, healthy = ctx.endpoint(0), ctx.endpoint(1)
    eventually(ctx, 4, lambda found: found[broken], f"{broken} gets no request at the start")
    if how.isdigit():
        ctx.endpoints.behave(broken, Behaviour("fixed", status=int(how), body="own\n"))
    else:
        break_endpoint(ctx, broken, how)
    failed = 0
    try:
        for _ in range(20):
            failed += not count_answers(ctx, 1)[healthy]
            if failed == most:
                break
        begun = time.monotonic()
        time.sleep(TAKES_HOLD)
        found = count_answers(ctx, 12)
        stays_out = found[healthy] == 12 or time.monotonic() - begun >= 1.2
        sentence = f"{how}: after {failed} failures answers were {dict(found)}, expected all from {healthy}"
        require(stays_out, sentence)
    finally:
        restore_endpoint(ctx, broken)
    eventually(
        ctx, 4, lambda found: found[broken], f"{how}: {broken} is healthy and its time is over, and it gets no request"
    )
    took = time.monotonic() - begun
    require(took >= 1.1, f"{how}: {broken} came back after {took:.1f} s, expected 1.5 s")


@contextmanager
def _checked_out(ctx: ScriptContext) -> Iterator[bool]:
    """While an endpoint of another pool is taken out by its checks; whether that came about."""
    other = ctx.params["checked"]
    with broken_endpoint(ctx, f"{other}-0", "check 500"):
        out = wait_until(lambda: count_answers(ctx, 6, f"/{other}")[f"{other}-1"] == 6)
        time.sleep(HANDOVER)
        yield out


def _eject(ctx: ScriptContext) -> str:
    """Have real traffic fail, checks alone not, until one of two endpoints is out, and make it healthy again."""
    broken, healthy = ctx.endpoint(0), ctx.endpoint(1)
    time.sleep(HANDOVER)
    ctx.endpoints.behave(broken, OK, path=CHECK)
    with behaving(ctx, broken, Behaviour("close")):
        eventually(ctx, 6, lambda found: found[healthy] == 6, f"{broken} fails and is not ejected")
    return broken


def ejected_beside_checks(ctx: ScriptContext) -> None:
    """An ejected endpoint stays out (for 20 s) while checks take out one of another pool."""
    broken = _eject(ctx)
    with _checked_out(ctx) as out:
        found = count_answers(ctx, 10)
        sentence = f"ejected, then a check took out another pool's endpoint ({out}): {dict(found)}"
        require(out and not found[broken], sentence)


def places_beside_checks(ctx: ScriptContext) -> Iterator[str]:
    """A place that is taken stays taken while checks take out an endpoint of another pool."""
    with held(ctx, [ctx.target], 4) as under_way:
        with _checked_out(ctx) as out:
            found = ctx.ask(get(ctx.target))
            busy = under_way[0].done()
        if (not out or own_status(found, 503) != 503) and not busy:
            yield f"the only place is taken, then a check took out another pool's endpoint ({out}): {found.status}"
        if (status := under_way[0].result().status) != 200:
            yield f"the request under way: {status}"


def slow_start(ctx: ScriptContext) -> None:
    """Over `slow_start` (3 s) an endpoint that came back gets less than its share, then all of it."""
    back = ctx.endpoint(0)
    # One that was found well after the other is eased in too, and its new weight may be known only once it is asked.
    eventually(ctx, 40, lambda found: 14 <= found[back] <= 26, f"before it failed {back} did not get half")
    with broken_endpoint(ctx, back, "check 500"):
        eventually(ctx, 6, lambda found: not found[back], "failed checks did not take the endpoint out")
    _eased_in(ctx, back)
    time.sleep(2.5)
    late = count_answers(ctx, 60)
    require(20 <= late[back] <= 40, f"3.5 s later {back} got {late[back]} of 60, expected 30")


def slow_start_after_ejection(ctx: ScriptContext) -> None:
    """Over `slow_start` (3 s) an endpoint that was ejected gets less than its share, too."""
    _eased_in(ctx, _eject(ctx))


def _eased_in(ctx: ScriptContext, back: str) -> None:
    """Check that a returning endpoint, one of two, gets well below half in its first second (of 3 s)."""
    eventually(ctx, 4, lambda found: found[back], "it does not come back", seconds=8)
    end = time.monotonic() + 1.0
    early = count_answers(ctx, 6)
    while time.monotonic() < end and early.total() < 60:
        early += count_answers(ctx, 6)
    time.sleep(max(0.0, end - time.monotonic()))
    sentence = f"just back, {back} got {early[back]} of {early.total()}, expected well below half"
    require(early[back] * 60 <= 22 * early.total(), sentence)
