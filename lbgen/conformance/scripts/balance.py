"""Load balancing: least connections, random, hashes, and sticky sessions of clients that keep the cookie."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.conformance.scripts.context import (
    ScriptContext,
    account_field,
    behaving,
    broken_endpoint,
    control,
    get,
    own_status,
    require,
    wait_until,
)
from lbgen.plan.request import Request
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.http1_client import Answer


def _name(ctx: ScriptContext, request: Request) -> str:
    return account_field(ctx.ask(request), "name")


def least_connections(ctx: ScriptContext) -> Iterator[str]:
    """A slow endpoint gets fewer requests than a fast one; evenly busy ones share evenly."""
    with behaving(ctx, "least-0", Behaviour("hang", wait_ms=400)), ThreadPoolExecutor(6) as pool:
        counts = Counter(pool.map(lambda _: _name(ctx, get("/least")), range(60)))
    if counts.total() != counts["least-0"] + counts["least-1"] or not counts["least-0"] < 24:
        yield f"of 60 requests, 6 at a time, with one slow endpoint: {dict(counts)}"
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for _ in range(8):
            futures.append(pool.submit(_name, ctx, get("/least", control(mode="hang", wait_ms=700))))
            time.sleep(0.03)
        counts = Counter(future.result() for future in futures)
    if counts != Counter({"least-0": 4, "least-1": 4}):
        yield f"8 requests in flight at once: {dict(counts)}, expected 4 and 4"


def random_is_no_cycle(ctx: ScriptContext) -> None:
    """A random choice picks the same endpoint twice in a row now and then; a cycle over three never does."""
    names = [_name(ctx, get(ctx.target)) for _ in range(60)]
    again = sum(first == second for first, second in pairwise(names))
    require(5 <= again <= 40, f"of 59 requests {again} went where the one before went, expected about 20")


def _keyed(ctx: ScriptContext, number: int) -> Request:
    """A request with that key, by header unless the case says otherwise."""
    name, value = ctx.params.get("name", "X-User"), f"k{number}"
    match ctx.params.get("by", "header"):
        case "client":
            return replace(get(ctx.target), client=f"127.0.{20 + number // 200}.{number % 200 + 1}")
        case "query":
            return get(f"{ctx.target}?x=1&{name}={value}&{name}=other")
        case "cookie":
            return get(ctx.target, ("Cookie", f"x=1; {name}={value}"))
    return get(ctx.target, (name, value))


def _homes(ctx: ScriptContext, keys: int) -> dict[int, str]:
    return {number: _name(ctx, _keyed(ctx, number)) for number in range(keys)}


def hash_spreads_and_stays(ctx: ScriptContext) -> Iterator[str]:
    """Requests of equal key go to one endpoint; 300 keys spread by weight within 35 %."""
    weights = ctx.params["weights"]
    homes = _homes(ctx, 300)
    if moved := {k: (home, now) for k, now in _homes(ctx, 60).items() if (home := homes[k]) != now}:
        yield f"equal keys went elsewhere: {dict(list(moved.items())[:5])}"
    counts = Counter(homes.values())
    for number, weight in enumerate(weights):
        want, got = 300 * weight / sum(weights), counts.pop(ctx.endpoint(number), 0)
        if not 0.65 * want <= got <= 1.35 * want:
            yield f"{ctx.endpoint(number)} got {got} of 300 keys, expected {want:.0f} within 35 %"
    if counts:
        yield f"other answers: {dict(counts)}"


def hash_moves_little(ctx: ScriptContext) -> Iterator[str]:
    """When an endpoint goes down (nearly) only its own keys move, and they come home with it."""
    broken = ctx.endpoint(1)
    names = {ctx.endpoint(number) for number in range(len(ctx.plan.pool(ctx.params["pool"]).endpoints))}
    homes: dict[int, str] = {}
    now: dict[int, str] = {}

    # On a machine that is late checks of other endpoints fail too: until they are back nothing can be told.
    def all_serve() -> bool:
        nonlocal homes
        homes = _homes(ctx, 150)
        return set(homes.values()) == names

    def out_alone() -> bool:
        nonlocal now
        if any(_name(ctx, _keyed(ctx, number)) == broken for number in range(40)):
            return False
        now = _homes(ctx, 150)
        return set(now.values()) == names - {broken}

    def strayed(most: int) -> int:
        """How many keys are not at home; no more are looked for where there are more than `most`."""
        away = (key for key, home in homes.items() if _name(ctx, _keyed(ctx, key)) != home)
        return len(list(islice(away, most + 1)))

    require(wait_until(all_serve), f"not every endpoint serves at the start: {Counter(homes.values())}")
    with broken_endpoint(ctx, broken, "check 500"):
        require(wait_until(out_alone), f"{broken} is not taken out alone: {Counter(now.values())}")
    others = [key for key, home in homes.items() if home != broken]
    if (moved := sum(now[key] != homes[key] for key in others)) > len(others) / 10:
        yield f"{broken} went down, and {moved} of {len(others)} keys of other endpoints moved"
    taken = Counter(now[k] for k, home in homes.items() if home == broken)
    if len(taken) < 2:
        yield f"all keys of {broken} moved to one endpoint: {dict(taken)}"
    if not wait_until(lambda: strayed(8) <= 8):
        yield f"{broken} is healthy again, and {strayed(150)} of 150 keys are not where they were"


def _cookie(ctx: ScriptContext, answer: Answer) -> str | None:
    """The value that the answer sets."""
    values = [v.partition(";")[0].partition("=") for v in answer.lines("set-cookie")]
    return next((value for found, _, value in values if found == ctx.params["cookie"]), None)


def _with_cookie(ctx: ScriptContext, value: str, *more: tuple[str, str]) -> Request:
    return get(ctx.target, ("Cookie", f"{ctx.params['cookie']}={value}"), *more)


def sticky_session(ctx: ScriptContext) -> Iterator[str]:
    """What is set leads back to the endpoint that set it, for every endpoint."""
    homes: dict[str, str] = {}
    for _ in range(24):
        answer = ctx.ask(get(ctx.target))
        homes[account_field(answer, "name")] = _cookie(ctx, answer) or ""
    if len(homes) != len(ctx.plan.pool(ctx.params["pool"]).endpoints) or len(set(homes.values())) != len(homes):
        yield f"cookies by endpoint: {homes}"
    for home, value in homes.items():
        found = [_name(ctx, _with_cookie(ctx, value)) for _ in range(4)]
        if found != [home] * 4:
            yield f"the cookie of {home} leads to {found}"


def _moved(ctx: ScriptContext, why: str) -> Iterator[str]:
    """A cookie of the endpoint that is out: the other one answers and sets its own."""
    broken, healthy = ctx.endpoint(0), ctx.endpoint(1)
    home, other = (endpoint.cookie_value for endpoint in ctx.plan.pool(ctx.params["pool"]).endpoints)
    answer, stays = ctx.ask(_with_cookie(ctx, home)), ctx.ask(_with_cookie(ctx, other))
    if (found := (account_field(answer, "name"), _cookie(ctx, answer))) != (healthy, other):
        yield f"{broken} is {why}: {found[0]}, cookie {found[1]}, expected {other}"
    if (found := (account_field(stays, "name"), _cookie(ctx, stays))) != (healthy, None):
        yield f"the cookie of {healthy} is kept while {broken} is {why}: {found[0]}, {found[1]}"


def _leads_to(ctx: ScriptContext, name: str, when: str) -> None:
    """The cookie of the first endpoint comes to lead to `name`."""
    home = ctx.plan.pool(ctx.params["pool"]).endpoints[0].cookie_value
    leads = wait_until(lambda: _name(ctx, _with_cookie(ctx, home)) == name)
    require(leads, f"{when} the cookie of {ctx.endpoint(0)} does not lead to {name}")


def sticky_endpoint_down(ctx: ScriptContext) -> Iterator[str]:
    """A client of an endpoint that is down gets another one and its cookie; later its old cookie is good again."""
    _leads_to(ctx, ctx.endpoint(0), "at the start")
    with broken_endpoint(ctx, ctx.endpoint(0), "check 500"):
        _leads_to(ctx, ctx.endpoint(1), "while that is down")
        yield from _moved(ctx, "down")
    _leads_to(ctx, ctx.endpoint(0), "when that is back")


def sticky_endpoint_ejected(ctx: ScriptContext) -> Iterator[str]:
    """The same for an endpoint that failed in traffic (two failures in a row, for 1500 ms)."""
    home = ctx.plan.pool(ctx.params["pool"]).endpoints[0].cookie_value
    failing = _with_cookie(ctx, home, control(mode="close"))
    found = [own_status(ctx.ask(failing), 502) for _ in range(2)]
    if found != [502, 502]:
        yield f"a cookie of {ctx.endpoint(0)}, which fails: {found}, expected 502 twice"
    yield from _moved(ctx, "ejected")
    served = {_name(ctx, get(ctx.target)) for _ in range(4)}
    if served != {ctx.endpoint(1)}:
        yield f"{ctx.endpoint(0)} is ejected: clients without a cookie get {sorted(served)}"
    _leads_to(ctx, ctx.endpoint(0), "when its time is over")
