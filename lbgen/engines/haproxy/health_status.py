"""Health of endpoints as HAProxy's statistics report it."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence

from lbgen.engines.health import NO_ADDRESS, Condition, State

STATUS_PATH = "/;csv"
# Statuses of a failed check; any other did not take the endpoint out.
_FAILED = ("L4TOUT", "L4CON", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7STS", "SOCKERR")
_UNRESOLVED = "MAINT (resolution)"


def endpoint_conditions(pools: Mapping[str, Sequence[str]], answer: str) -> dict[tuple[str, int], Condition]:
    """By pool and index of the endpoint: server sN of the first backend of a pool is endpoint N-1.

    `answer` is the CSV of the statistics page.
    """
    now = time.time()
    conditions = {}
    for row in csv.DictReader(answer.removeprefix("# ").splitlines()):
        pool, server = (row.get("pxname") or "").removesuffix(":1"), row.get("svname") or ""
        if pool in pools and server.startswith("s") and server[1:].isdigit():
            conditions[pool, int(server[1:]) - 1] = _condition(row, now)
    return conditions


def _condition(row: Mapping[str, str], now: float) -> Condition:
    status = row.get("status") or ""
    changed = row.get("lastchg") or ""
    since = round(now - int(changed), 1) if changed.isdigit() else None
    if status == _UNRESOLVED:
        return Condition(NO_ADDRESS.state, since, NO_ADDRESS.reason)
    if status.startswith("MAINT"):  # by a command of an operator to the stats socket
        return Condition(State.EJECTED, since)
    if status.startswith("DOWN"):
        check = row.get("check_status", "").removeprefix("* ")  # the mark of a running check
        failed = check.startswith(_FAILED)
        return Condition(State.DOWN if failed else State.EJECTED, since, _reason(row) if failed else "")
    if row.get("weight") == "0":
        return Condition(State.DRAINING, since)
    if row.get("throttle"):
        return Condition(State.STARTING, since)
    return Condition(State.UP, since)


def _reason(row: Mapping[str, str]) -> str:
    """The result of the last check: its layer, the text of the endpoint, its code."""
    texts = (row.get("check_desc", ""), row.get("last_chk", ""))
    code = row.get("check_code", "")
    return ": ".join(text for text in texts if text) + (f" {code}" if code and code != "0" else "")
