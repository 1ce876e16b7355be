"""Failing endpoints without retries or passive checks: one try, the same status on a kept connection."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.scripts.context import ScriptContext, behaving, get, own_status, wait_until
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.stand_in import Behaviour


def one_attempt(ctx: ScriptContext) -> Iterator[str]:
    """Without retries a failed request was sent once."""
    for target in ("/two", "/p"):
        for mode in ("close", "reset", "garbage", "hang"):
            before = sum(ctx.endpoints.requests.values())
            answer = fetch(ctx.at["web"], get(target, (CONTROL, f'{{"mode": "{mode}"}}')))
            time.sleep(0.1)
            tries = sum(ctx.endpoints.requests.values()) - before
            if tries != 1:
                yield f"{target}, endpoint does {mode}: {tries} tries, answer {answer.status}"


def nothing_ejected(ctx: ScriptContext) -> Iterator[str]:
    """Without passive health an endpoint that keeps failing keeps getting its share."""
    with behaving(ctx, "two-0", Behaviour("close")):
        answers = Counter(own_status(fetch(ctx.at["web"], get("/two")), 502) for _ in range(20))
    if not (6 <= answers[502] <= 14 and answers[200] == 20 - answers[502]):
        yield f"one of two endpoints fails: answers {dict(answers)}, expected 10 times 502 and 10 times 200"


def kept_connection_faults(ctx: ScriptContext) -> Iterator[str]:
    """A failing endpoint gets the same status on a kept client connection as on a new one."""
    yield from _kept(ctx, (("/refused", "", 502), ("/p", "close", 502), ("/p", "reset", 502), ("/p", "hang", 504)))


def kept_connection_connect_time(ctx: ScriptContext) -> Iterator[str]:
    """So does a connect time that is over."""
    yield from _kept(ctx, (("/dropped", "", 504),))


def kept_connection_posts(ctx: ScriptContext) -> Iterator[str]:
    """So does a request that is not tried again on a route with retries."""
    yield from _kept(ctx, (("/reset", "close", 502), ("/reset", "reset", 502)), "POST")


def keyed_posts(ctx: ScriptContext) -> Iterator[str]:
    """A request with a key for its repeats is repeated by its client alone, also where a kept connection breaks."""
    for name in ("idempotency-key", "x-idempotency-key"):
        tag = uuid4().hex
        with ClientConnection(ctx.at["web"]) as stream:
            for _ in range(4):
                stream.ask(get("/reset"))
            control = (CONTROL, f'{{"mode": "close", "tag": "{tag}"}}')
            stream.ask(get("/reset", (name, "1"), control, method="POST"))
        count = len(list(ctx.endpoints.tagged(tag)))
        if count != 1:
            yield f"a POST with {name} reached endpoints {count} times, expected once"


def _kept(ctx: ScriptContext, faults: tuple[tuple[str, str, int], ...], method: str = "GET") -> Iterator[str]:
    for target, mode, status in faults:
        control = ((CONTROL, f'{{"mode": "{mode}"}}'),) if mode else ()
        with ClientConnection(ctx.at["web"]) as stream:
            for _ in range(ctx.params.get("before", 1)):
                first = stream.ask(get(ctx.params.get("first", "/p"))).status
            if first != 200:
                yield f"first request: {first}"
                continue
            answer = stream.ask(get(target, *control, method=method))
        if own_status(answer, status) != status:
            yield f"second request, {target} {mode}: {answer.status} {answer.problem}, expected {status}"


def further_tries_reach_others(ctx: ScriptContext) -> Iterator[str]:
    """Of many requests at a time none comes back to an endpoint while another one has not been tried."""
    failing = '{"mode": "fixed", "status": 503}'
    tags = [uuid4().hex for _ in range(60)]
    steps = f'"steps": [{failing}, {failing}, {{}}]'
    requests = [get(ctx.params["target"], ("x-key", tag), (CONTROL, f'{{"tag": "{tag}", {steps}}}')) for tag in tags]
    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(lambda request: fetch(ctx.at["web"], request).status, requests))
    if set(statuses) != {200}:
        yield f"answers {dict(statuses)}, expected 200"
    tries = [[one.name for one in ctx.endpoints.tagged(tag)] for tag in tags]
    again = [names for names in tries if len(set(names)) < len(names)]
    if again:
        yield f"{len(again)} of {len(tags)} requests came back to an endpoint that had failed: {', '.join(again[0])}"


def no_try_for_nobody(ctx: ScriptContext) -> Iterator[str]:
    """Where the client leaves within the response time (500 ms) of the first try, there is no second."""
    tag = uuid4().hex
    with ClientConnection(ctx.at["web"]) as stream:
        stream.send(serialize(get(ctx.params["target"], (CONTROL, f'{{"tag": "{tag}", "mode": "hang"}}'))))
        wait_until(lambda: bool(ctx.endpoints.tagged(tag)), 0.3)
    time.sleep(1.2)
    if (tries := len(ctx.endpoints.tagged(tag))) != 1:
        yield f"{tries} tries, expected 1: the client had left"


def retry_budget(ctx: ScriptContext) -> Iterator[str]:
    """Of many requests that fail at a time only a share is tried again (25 %; up to three at a time may be free)."""
    tag, count = uuid4().hex, 16
    request = get("/budget", (CONTROL, f'{{"mode": "hang", "tag": "{tag}"}}'))
    with ThreadPoolExecutor(count) as pool:
        statuses = list(pool.map(lambda _: own_status(fetch(ctx.at["web"], request), 504), range(count)))
    tries = len(ctx.endpoints.tagged(tag))
    if statuses != [504] * count:
        yield f"answers {statuses}, expected 504"
    if not count < tries <= 36:
        yield f"{count} requests at a time, all of which time out, with 3 retries: {tries} tries, expected 17 to 36"
