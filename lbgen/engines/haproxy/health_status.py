"""HAProxy's statistics -> how its endpoints are."""

from __future__ import annotations

import csv
import time
from typing import TYPE_CHECKING

from lbgen.engines.health import NO_ADDRESS, Condition, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TELLS = "/;csv"
# Of a check that failed; one that passed, or none at all, took nobody out.
_FAILED = ("L4TOUT", "L4CON", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7STS", "SOCKERR")
_UNRESOLVED = "MAINT (resolution)"


def health(pools: Mapping[str, Sequence[str]], answer: str) -> dict[tuple[str, int], Condition]:
    """By pool and place of the endpoint. Server sN of the backend that has the pool's name is endpoint N-1."""
    now = time.time()
    found = {}
    for row in csv.DictReader(answer.removeprefix("# ").splitlines()):
        pool, server = row.get("pxname") or "", row.get("svname") or ""
        if pool in pools and server.startswith("s") and server[1:].isdigit():
            found[pool, int(server[1:]) - 1] = _condition(row, now)
    return found


def _condition(row: Mapping[str, str], now: float) -> Condition:
    status = row.get("status") or ""
    changed = row.get("lastchg") or ""
    since = round(now - int(changed), 1) if changed.isdigit() else None
    if status == _UNRESOLVED:
        return Condition(NO_ADDRESS.state, since, NO_ADDRESS.reason)
    if status.startswith("MAINT"):  # the Lua action that judges answers puts an endpoint there
        return Condition(State.EJECTED, since)
    if status.startswith("DOWN"):
        check = row.get("check_status", "").removeprefix("* ")  # one is under way
        failed = check.startswith(_FAILED)
        return Condition(State.DOWN if failed else State.EJECTED, since, _reason(row) if failed else "")
    if row.get("weight") == "0":
        return Condition(State.DRAINING, since)
    if row.get("throttle"):
        return Condition(State.STARTING, since)
    return Condition(State.UP, since)


def _reason(row: Mapping[str, str]) -> str:
    """What the last check found; the description names the layer, the rest what was said there."""
    texts = (row.get("check_desc", ""), row.get("last_chk", ""))
    code = row.get("check_code", "")
    return ": ".join(text for text in texts if text) + (f" {code}" if code and code != "0" else "")
