"""The access log, read back in lbgen's own schema."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from uuid import uuid4

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import Answer, serialize, websocket_echo
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import ScriptContext, control, get, require, wait_until
from lbgen.json_types import AccessRecord
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL

Record = Mapping[str, object]
PATIENCE = 6.0  # seconds within which a buffered line is written
SECRET = "s3cr3t-in-query-and-cookie"  # noqa: S105  # no password: what no log may hold


def _records(ctx: ScriptContext, path: str, count: int = 1) -> list[Record]:
    """The records of requests for that path, once there are so many."""

    def found() -> list[Record]:
        return [record for _, record in ctx.log() if record.get("path") == path]

    wait_until(lambda: len(found()) >= count, PATIENCE)
    return found()


def _wrong(record: Record, want: dict[str, object]) -> Iterator[str]:
    keys = AccessRecord.__annotations__.keys()
    if record.keys() != keys:
        yield f"missing {sorted(keys - record.keys())}, unknown {sorted(record.keys() - keys)}"
    for key, value in want.items():
        got = record.get(key)
        if got != value or type(got) is not type(value):
            yield f"{key} {got!r}, expected {value!r}"
    try:
        written = datetime.fromisoformat(str(record.get("time")))
    except ValueError:
        yield f"time {record.get('time')!r} is not RFC 3339"
    else:
        ago = abs(datetime.now(written.tzinfo) - written) if written.tzinfo is not None else timedelta.max
        if written.utcoffset() != timedelta(0) or ago > timedelta(minutes=1):
            yield f"time {record.get('time')!r} is not that of the request, in UTC"
    duration = record.get("duration_ms")
    if not isinstance(duration, int | float) or isinstance(duration, bool) or duration < 0:
        yield f"duration_ms {duration!r} is no time"


def log_of_one_request(ctx: ScriptContext) -> Iterator[str]:
    """One line for a request, in the schema, with values that are true. `with` says what is asked and what must be
    in the line; `{path}` is the request's own path. `query` null: none, not even an empty one."""
    given = ctx.params
    method, _, target = str(given["ask"]).partition(" ")
    path, host, query = f"{target}/{uuid4().hex}", str(given.get("host", "h")), given.get("query", f"q={SECRET}")
    headers = [("Host", host), ("Cookie", f"c={SECRET}")]
    headers += [(CONTROL, str(given["control"]).replace("TAG", path))] if "control" in given else []
    headers += [("Transfer-Encoding", "chunked")] if given.get("chunked") else []
    target = path if query is None else f"{path}?{query}"
    begun = time.monotonic()
    answer = ctx.ask(Request(method, target, tuple(headers), body=str(given.get("body", "")).encode()))
    took = (time.monotonic() - begun) * 1000
    found = _records(ctx, path)
    require(len(found) == 1, f"{len(found)} lines for one request (status {answer.status}), expected one")
    record, line, own = found[0], dict(given["line"]), account_of(answer) is None
    if own and "status" in line:
        if not is_own_status(answer.status, line["status"]):
            yield f"status {answer.status}, expected {line['status']}"
        line = {name: value for name, value in line.items() if name not in ("status", "bytes")}
    want: dict[str, object] = {
        "listener": ctx.listener,
        "method": method,
        "host": host,
        "path": path,
        "status": answer.status,
    }
    want |= {"bytes": len(answer.body), **line, **_of_endpoint(ctx, answer, given.get("endpoint"))}
    yield from _wrong(record, want)
    least, asked = float(given.get("least_ms", 0)), bool(given.get("endpoint")) or not own
    for key in ("duration_ms", "upstream_ms") if asked else ():
        value = record.get(key)
        if not isinstance(value, int | float) or not 0.8 * least <= value <= took + 60:
            yield f"{key} {value!r}, the request took {took:.0f} ms, of which the endpoint {least:.0f}"
    if not asked and record.get("upstream_ms") is not None:
        yield f"upstream_ms {record.get('upstream_ms')!r} although no endpoint was asked, expected null"
    if not asked and not record.get("request_id"):
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


def log_of_many(ctx: ScriptContext) -> None:
    """Every request has its line: 40 on one connection."""
    path = f"/ok/{uuid4().hex}"
    with ctx.connect() as stream:
        for _ in range(40):
            stream.ask(get(path))
    found = _records(ctx, path, 40)
    ids = {record.get("request_id") for record in found}
    require(len(found) == len(ids) == 40, f"{len(found)} lines with {len(ids)} request ids, expected 40 and 40")


def log_of_a_websocket(ctx: ScriptContext) -> None:
    """The line of a WebSocket has its handshake's status."""
    path = f"/ok/{uuid4().hex}"
    with ctx.connect() as stream:
        status = stream.ask(get(path, *HANDSHAKE)).status
        require(status == 101, f"status {status}, expected 101")
        websocket_echo(stream, b"hello")
    _has_one_line(ctx, path, 101)


def log_of_a_client_that_left(ctx: ScriptContext) -> None:
    """A client that goes before the answer: one line, status 0."""
    path = f"/ok/{uuid4().hex}"
    with ctx.connect() as stream:
        stream.send(serialize(get(path, control(mode="hang", wait_ms=400))))
        time.sleep(0.15)
    _has_one_line(ctx, path, 0)


def _has_one_line(ctx: ScriptContext, path: str, status: int) -> None:
    statuses = [record.get("status") for record in _records(ctx, path)]
    require(statuses == [status], f"statuses {statuses}, expected one line with {status}")


def log_of_a_connection(ctx: ScriptContext) -> None:
    """A connection of the L4 listener `with.listener` has a line of JSON, with the endpoint and the
    bytes that it got: probes that open connections have lines as well, without bytes."""
    endpoint = ctx.plan.pool(ctx.params["pool"]).endpoints[0].authority
    with ctx.connect() as stream:
        stream.send(b"hello")
        stream.read_exactly(5)

    def lines() -> list[set[str]]:
        return [set(map(str, json.loads(line).values())) for line, _ in ctx.log()]

    want = {ctx.listener, endpoint, "5"}
    logged = wait_until(lambda: any(want <= line for line in lines()), PATIENCE)
    require(logged, f"lines {lines()}, expected one with {sorted(want)}")
