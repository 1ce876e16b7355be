"""Sticky sessions of clients that keep the cookie."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.conformance.http1_client import Answer, fetch
from lbgen.conformance.scripts.context import ScriptContext, account_field, broken_endpoint, get, own_status, wait_until
from lbgen.runtime.standins.http1 import CONTROL


def _cookie(answer: Answer, name: str) -> str | None:
    """The value that the answer sets."""
    values = [v.partition(";")[0].partition("=") for v in answer.lines("set-cookie")]
    return next((value for found, _, value in values if found == name), None)


def _asked(ctx: ScriptContext, value: str, *more: tuple[str, str]) -> Answer:
    name = ctx.params["cookie"]
    return fetch(ctx.at["web"], get(f"/{ctx.params['pool']}", ("Cookie", f"{name}={value}"), *more))


def sticky_session(ctx: ScriptContext) -> Iterator[str]:
    """What is set leads back to the endpoint that set it, for every endpoint."""
    target, name = f"/{ctx.params['pool']}", ctx.params["cookie"]
    homes: dict[str, str] = {}
    for _ in range(24):
        answer = fetch(ctx.at["web"], get(target))
        homes[account_field(answer, "name")] = _cookie(answer, name) or ""
    if len(homes) != len(ctx.plan.pool(ctx.params["pool"]).endpoints) or len(set(homes.values())) != len(homes):
        yield f"cookies by endpoint: {homes}"
    for home, value in homes.items():
        found = [account_field(_asked(ctx, value), "name") for _ in range(4)]
        if found != [home] * 4:
            yield f"the cookie of {home} leads to {found}"


def _moved(ctx: ScriptContext, broken: str, healthy: str, why: str) -> Iterator[str]:
    """A cookie of the endpoint that is out: the other one answers and sets its own."""
    name = ctx.params["cookie"]
    ids = [endpoint.cookie_value for endpoint in ctx.plan.pool(ctx.params["pool"]).endpoints]
    answer = _asked(ctx, ids[0])
    if (account_field(answer, "name"), _cookie(answer, name)) != (healthy, ids[1]):
        yield f"{broken} is {why}: {account_field(answer, 'name')}, cookie {_cookie(answer, name)}, expected {ids[1]}"
    stays = _asked(ctx, ids[1])
    if account_field(stays, "name") != healthy or _cookie(stays, name) is not None:
        found = f"{account_field(stays, 'name')}, {_cookie(stays, name)}"
        yield f"the cookie of {healthy} is kept while {broken} is {why}: {found}"


def sticky_endpoint_down(ctx: ScriptContext) -> Iterator[str]:
    """A client of an endpoint that is down gets another one and its cookie; later its old cookie is good again."""
    pool = ctx.params["pool"]
    broken, healthy = f"{pool}-0", f"{pool}-1"
    home = ctx.plan.pool(pool).endpoints[0].cookie_value
    if not wait_until(lambda: account_field(_asked(ctx, home), "name") == broken):
        yield f"the cookie of {broken} leads to {account_field(_asked(ctx, home), 'name')}"
        return
    with broken_endpoint(ctx, broken, "check 500"):
        if not wait_until(lambda: account_field(_asked(ctx, home), "name") == healthy):
            yield f"{broken} is down, and its cookie leads to {account_field(_asked(ctx, home), 'name')}"
            return
        yield from _moved(ctx, broken, healthy, "down")
    if not wait_until(lambda: account_field(_asked(ctx, home), "name") == broken):
        yield f"{broken} is back, and its cookie leads to {account_field(_asked(ctx, home), 'name')}"


def sticky_endpoint_ejected(ctx: ScriptContext) -> Iterator[str]:
    """The same for an endpoint that failed in traffic (two failures in a row, for 1500 ms)."""
    pool = ctx.params["pool"]
    broken, healthy = f"{pool}-0", f"{pool}-1"
    home = ctx.plan.pool(pool).endpoints[0].cookie_value
    failing = (CONTROL, '{"mode": "close"}')
    found = [own_status(_asked(ctx, home, failing), 502) for _ in range(2)]
    if found != [502, 502]:
        yield f"a cookie of {broken}, which fails: {found}, expected 502 twice"
    yield from _moved(ctx, broken, healthy, "ejected")
    served = [account_field(fetch(ctx.at["web"], get(f"/{pool}")), "name") for _ in range(4)]
    if set(served) != {healthy}:
        yield f"{broken} is ejected: clients without a cookie get {served}"
    if not wait_until(lambda: account_field(_asked(ctx, home), "name") == broken):
        yield f"{broken} is back, and its cookie leads to {account_field(_asked(ctx, home), 'name')}"
