"""Load balancing: least connections, random, hashes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import fetch
from lbgen.conformance.scripts.context import ScriptContext, account_field, behaving, broken_endpoint, get, wait_until
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.plan.request import Request


def least_connections(ctx: ScriptContext) -> Iterator[str]:
    """A slow endpoint gets fewer requests than a fast one; evenly busy ones share evenly."""
    with behaving(ctx, "least-0", Behaviour("hang", wait_ms=400)), ThreadPoolExecutor(6) as pool:
        counts = Counter(pool.map(lambda _: account_field(fetch(ctx.at["web"], get("/least")), "name"), range(60)))
    if sum(counts.values()) != counts["least-0"] + counts["least-1"] or not counts["least-0"] < 24:
        yield f"of 60 requests, 6 at a time, with one slow endpoint: {dict(counts)}"
    slow = get("/least", (CONTROL, '{"mode": "hang", "wait_ms": 700}'))
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for _ in range(8):
            futures.append(pool.submit(fetch, ctx.at["web"], slow))
            time.sleep(0.03)
        counts = Counter(account_field(f.result(), "name") for f in futures)
    if counts != Counter({"least-0": 4, "least-1": 4}):
        yield f"8 requests in flight at once: {dict(counts)}, expected 4 and 4"


def random_is_no_cycle(ctx: ScriptContext) -> Iterator[str]:
    """A random choice picks the same endpoint twice in a row now and then; a cycle over three never does."""
    target = f"/{ctx.params['pool']}"
    names = [account_field(fetch(ctx.at["web"], get(target)), "name") for _ in range(60)]
    again = sum(first == second for first, second in pairwise(names))
    if not 5 <= again <= 40:
        yield f"of 59 requests {again} went where the one before went, expected about 20"


def _keyed(ctx: ScriptContext, value: str) -> Request:
    target, by, name = (
        f"/{ctx.params['pool']}",
        ctx.params.get("by", "header"),
        ctx.params.get("name", "X-User"),
    )
    match by:
        case "client":
            number = int(value.removeprefix("k"))
            return replace(get(target), client=f"127.0.{20 + number // 200}.{number % 200 + 1}")
        case "query":
            return get(f"{target}?x=1&{name}={value}&{name}=other")
        case "cookie":
            return get(target, ("Cookie", f"x=1; {name}={value}"))
    return get(target, (name, value))


def _home(ctx: ScriptContext, key: str) -> str:
    return account_field(fetch(ctx.at["web"], _keyed(ctx, key)), "name")


def _homes(ctx: ScriptContext, keys: int) -> dict[str, str]:
    return {key: _home(ctx, key) for key in (f"k{n}" for n in range(keys))}


def hash_spreads_and_stays(ctx: ScriptContext) -> Iterator[str]:
    """Requests of equal key go to one endpoint; 300 keys spread by weight within 35 %."""
    pool, weights = ctx.params["pool"], ctx.params["weights"]
    homes = _homes(ctx, 300)
    if moved := {k: (home, now) for k, now in _homes(ctx, 60).items() if (home := homes[k]) != now}:
        yield f"equal keys went elsewhere: {dict(list(moved.items())[:5])}"
    counts = Counter(homes.values())
    for number, weight in enumerate(weights):
        want = 300 * weight / sum(weights)
        got = counts.pop(f"{pool}-{number}", 0)
        if not 0.65 * want <= got <= 1.35 * want:
            yield f"{pool}-{number} got {got} of 300 keys, expected {want:.0f} within 35 %"
    if counts:
        yield f"other answers: {dict(counts)}"


def hash_moves_little(ctx: ScriptContext) -> Iterator[str]:
    """When an endpoint goes down (nearly) only its own keys move, and they come home with it."""
    pool = ctx.params["pool"]
    broken = f"{pool}-1"
    names = {f"{pool}-{n}" for n in range(len(ctx.plan.pool(pool).endpoints))}
    if not wait_until(lambda: set(_homes(ctx, 40).values()) == names):
        yield f"at the start: {Counter(_homes(ctx, 40).values())}"
        return
    homes = _homes(ctx, 150)
    now: dict[str, str] = {}

    def out_alone() -> bool:
        """On a machine that is late checks of other endpoints fail too: until they are back nothing can be told."""
        nonlocal now
        if any(_home(ctx, f"k{number}") == broken for number in range(40)):
            return False
        now = _homes(ctx, 150)
        return set(now.values()) == names - {broken}

    with broken_endpoint(ctx, broken, "check 500"):
        if not wait_until(out_alone):
            yield f"{broken} is not taken out alone: {Counter(now.values())}"
            return
    moved = sum(now[k] != home for k, home in homes.items() if home != broken)
    others = sum(home != broken for home in homes.values())
    if moved > others / 10:
        yield f"{broken} went down, and {moved} of {others} keys of other endpoints moved"
    taken = Counter(now[k] for k, home in homes.items() if home == broken)
    if len(taken) < 2:
        yield f"all keys of {broken} moved to one endpoint: {dict(taken)}"
    if not wait_until(lambda: len(_strayed(ctx, homes, 8)) <= 8):
        strayed = _strayed(ctx, homes, len(homes))
        yield f"{broken} is healthy again, and {len(strayed)} of 150 keys are not where they were"


def _strayed(ctx: ScriptContext, homes: dict[str, str], most: int) -> list[str]:
    """Keys that are not at home; no more are looked for where there are more than `most`."""
    strayed = (key for key, home in homes.items() if _home(ctx, key) != home)
    return list(islice(strayed, most + 1))
