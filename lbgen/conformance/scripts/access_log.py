"""The access log, read back in lbgen's own schema."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import Answer, ClientConnection, fetch, serialize, websocket_echo
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, get, wait_until
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    Record = Mapping[str, object]

KEYS = {
    "time",
    "listener",
    "route",
    "pool",
    "endpoint",
    "method",
    "host",
    "path",
    "status",
    "duration_ms",
    "upstream_ms",
    "tries",
    "bytes",
    "request_id",
}
PATIENCE = 6.0  # seconds within which a buffered line is written
SECRET = "s3cr3t-in-query-and-cookie"  # noqa: S105  # no password: what no log may hold


def _records(ctx: ScriptContext, path: str) -> list[Record]:
    """The records of requests for that path, once there is one."""

    def found() -> list[Record]:
        return [record for _, record in ctx.log() if record.get("path") == path]

    wait_until(lambda: bool(found()), PATIENCE)
    return found()


def _wrong(record: Record, want: dict[str, object]) -> Iterator[str]:
    if set(record) != KEYS:
        yield f"missing {sorted(KEYS - set(record))}, unknown {sorted(set(record) - KEYS)}"
    for key, value in want.items():
        got = record.get(key)
        if got != value or type(got) is not type(value):
            yield f"{key} {got!r}, expected {value!r}"
    try:
        account = datetime.fromisoformat(str(record.get("time")))
    except ValueError:
        yield f"time {record.get('time')!r} is not RFC 3339"
    else:
        ago = abs(datetime.now(account.tzinfo) - account) if account.tzinfo is not None else timedelta.max
        if account.utcoffset() != timedelta(0) or ago > timedelta(minutes=1):
            yield f"time {record.get('time')!r} is not that of the request, in UTC"
    duration = record.get("duration_ms")
    if not isinstance(duration, int | float) or isinstance(duration, bool) or duration < 0:
        yield f"duration_ms {duration!r} is no time"


def log_of_one_request(ctx: ScriptContext) -> Iterator[str]:
    """One line for a request, in the schema, with values that are true. `with` says what is asked and what must be
    in the line; `{path}` is the request's own path. `query` null: none, not even an empty one."""
    given = ctx.params
    method, _, target = str(given["ask"]).partition(" ")
    path = f"{target}/{uuid4().hex}"
    headers = [("Host", str(given.get("host", "h"))), ("Cookie", f"c={SECRET}")]
    if "control" in given:
        headers.append((CONTROL, str(given["control"]).replace("TAG", path)))
    if given.get("chunked"):
        headers.append(("Transfer-Encoding", "chunked"))
    query = given.get("query", f"q={SECRET}")
    target = path if query is None else f"{path}?{query}"
    request = Request(method, target, tuple(headers), body=str(given.get("body", "")).encode())
    begun = time.monotonic()
    answer = fetch(ctx.at[given.get("listener", "web")], request)
    took = (time.monotonic() - begun) * 1000
    found = _records(ctx, path)
    if len(found) != 1:
        yield f"{len(found)} lines for one request (status {answer.status}), expected one"
        return
    record = found[0]
    line = dict(given["line"])
    if account_of(answer) is None and "status" in line:
        if not is_own_status(answer.status, line["status"]):
            yield f"status {answer.status}, expected {line['status']}"
        line = {name: value for name, value in line.items() if name not in ("status", "bytes")}
    want: dict[str, object] = {
        "listener": given.get("listener", "web"),
        "method": method,
        "host": str(given.get("host", "h")),
        "path": path,
        "status": answer.status,
        "bytes": len(answer.body),
        **line,
    }
    yield from _wrong(record, want | _of_endpoint(ctx, answer, given.get("endpoint")))
    if given.get("endpoint") or account_of(answer) is not None:
        yield from _took(record, float(given.get("least_ms", 0)), took)
    elif record.get("upstream_ms") is not None:
        yield f"upstream_ms {record.get('upstream_ms')!r} although no endpoint was asked, expected null"
    if not given.get("endpoint") and account_of(answer) is None and not record.get("request_id"):
        yield "request_id is empty"
    if any(SECRET in line for line, _ in ctx.log()):
        yield "the query or a cookie is in the log"


def _of_endpoint(ctx: ScriptContext, answer: Answer, known: str | None) -> dict[str, object]:
    """Endpoint and request id, as the endpoint that answered (or `known`, which could not) tells them."""
    account = account_of(answer)
    name = str(account["name"]) if account is not None else known
    if name is None:
        return {"endpoint": ""}
    pool, _, number = name.rpartition("-")
    found: dict[str, object] = {"endpoint": ctx.plan.pool(pool).endpoints[int(number)].authority}
    if account is not None:
        found["request_id"] = next((v for n, v in account["headers"] if n.lower() == "x-request-id"), "")
    return found


def _took(record: Record, least: float, took: float) -> Iterator[str]:
    for key in ("duration_ms", "upstream_ms"):
        value = record.get(key)
        if not isinstance(value, int | float) or not 0.8 * least <= value <= took + 60:
            yield f"{key} {value!r}, the request took {took:.0f} ms, of which the endpoint {least:.0f}"


def log_of_many(ctx: ScriptContext) -> Iterator[str]:
    """Every request has its line: 40 on one connection."""
    path = f"/ok/{uuid4().hex}"
    with ClientConnection(ctx.at["web"]) as stream:
        for _ in range(40):
            stream.ask(Request("GET", path, (("Host", "h"),)))
    wait_until(lambda: len(_records(ctx, path)) >= 40, PATIENCE)
    found = _records(ctx, path)
    ids = {record.get("request_id") for record in found}
    if len(found) != 40 or len(ids) != 40:
        yield f"{len(found)} lines with {len(ids)} request ids, expected 40 and 40"


def log_of_a_websocket(ctx: ScriptContext) -> Iterator[str]:
    """The line of a WebSocket has its handshake's status."""
    path = f"/ok/{uuid4().hex}"
    with ClientConnection(ctx.at["web"]) as stream:
        if (status := stream.ask(get(path, *HANDSHAKE)).status) != 101:
            yield f"status {status}, expected 101"
            return
        websocket_echo(stream, b"hello")
    found = _records(ctx, path)
    if len(found) != 1 or found[0].get("status") != 101:
        yield f"statuses {[record.get('status') for record in found]}, expected one line with 101"


def log_of_a_connection(ctx: ScriptContext) -> Iterator[str]:
    """A connection of the L4 listener `with.listener` has a line of JSON, with the endpoint and the
    bytes that it got: probes that open connections have lines as well, without bytes."""
    name = ctx.params["listener"]
    endpoint = ctx.plan.pool(ctx.params["pool"]).endpoints[0].authority
    with ClientConnection(ctx.at[name]) as stream:
        stream.send(b"hello")
        stream.read_exactly(5)

    def lines() -> list[set[str]]:
        read = (json.loads(line) for line, _ in ctx.log())
        return [set(map(str, line.values())) for line in read]

    want = {name, endpoint, "5"}
    if not wait_until(lambda: any(want <= line for line in lines()), PATIENCE):
        yield f"lines {lines()}, expected one with {sorted(want)}"


def log_of_a_client_that_left(ctx: ScriptContext) -> Iterator[str]:
    """A client that goes before the answer: one line, status 0."""
    path = f"/ok/{uuid4().hex}"
    request = Request("GET", path, (("Host", "h"), (CONTROL, '{"mode": "hang", "wait_ms": 400}')))
    with ClientConnection(ctx.at["web"]) as stream:
        stream.send(serialize(request))
        time.sleep(0.15)
    found = _records(ctx, path)
    if len(found) != 1 or found[0].get("status") != 0:
        yield f"statuses {[record.get('status') for record in found]}, expected one line with 0"
