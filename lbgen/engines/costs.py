"""What the features of a plan cost on an engine: CPU per request as measured, and what would be cheaper.

An engine's figures are in `costs.json` beside its module, made by `python -m tests.bench.costs`: for each feature the
CPU microseconds that one request takes more with it than without it.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any

from msgspec import Meta

from lbgen.engines.api import Engine
from lbgen.engines.verdicts import answers
from lbgen.json_types import Printed
from lbgen.plan.model import Plan

FILE = "costs.json"

# What is measured, and what to write instead; a test holds the measuring script to these names.
CHEAPER: dict[str, str] = {
    "access_log": "access_log: none, on listeners whose endpoints log by themselves",
    "forwarded_headers": "forwarded_headers: false, where no endpoint reads X-Forwarded-*",
    "request_id": "request_id: false, where nothing joins logs by X-Request-Id",
    "listener.tls": "nothing that is as safe; keep clients' connections open (client_timeouts: { keepalive })",
    "listener.access": "access rules of the network, before the proxy",
    "listener.limits": "the defaults",
    "match.path.exact": "a prefix that many routes share",
    "match.path.regex": "path: { prefix } or { exact }; a regex runs for each request that reaches its rule",
    "match.methods": "leaving methods to the endpoint",
    "match.headers": "a host or a path for each variant",
    "match.headers.regex": "an exact value, or a host or a path for each variant",
    "match.query": "a path for each variant",
    "match.cookies": "a header, which needs no search in the Cookie line, or a host",
    "route.request_headers.set": "fewer edits",
    "route.response_headers.set": "having the endpoint set them",
    "route.forward.split": "weights of the endpoints of one pool",
    "route.rewrite.prefix": "serving the path as it comes",
    "route.mirror": "a lower percent: each copy is a request of its own",
    "route.cors": "having the endpoint answer",
    "route.compression": "having the endpoint compress, or fewer types",
    "route.buffering": "the engine's own way: leave buffering out",
    "route.rate_limit": "a limit on the routes that need one",
    "route.concurrency": "connections: { max_per_endpoint }",
    "route.max_body": "a limit on the routes that take bodies",
    "route.access": "access of the whole listener",
    "timeouts.request": "timeouts: { response }, where a stalled body may take longer",
    "route.retries": "on: [connect_failure] alone",
    "pool.balance.least_connections": "balance: round_robin",
    "pool.balance.random": "balance: round_robin",
    "pool.balance.source_hash": "balance: round_robin, where clients need no fixed endpoint",
    "pool.balance.hash": "balance: round_robin, where keys need no fixed endpoint",
    "pool.sticky": "balance: source_hash, or sessions that all endpoints share",
    "pool.health.passive": "active checks, which cost nothing per request",
    "pool.connections.max_per_endpoint": "a limit at the endpoint",
}


class Cost(Printed, frozen=True):
    """What one feature adds to a request, in CPU microseconds. Only requests of the routes, pools and listeners of
    `fields` take it."""

    feature: str
    us: Annotated[float, Meta(description="The median of the rounds.")]
    low: Annotated[float, Meta(description="The lower end of the middle half of the rounds.")]
    high: float
    noise: Annotated[bool, Meta(description="Within the noise.")]
    fields: Annotated[tuple[str, ...], Meta(description="The topology fields that ask for it.")]
    cheaper: Annotated[str, Meta(description="What to write instead.")]


class Measurement(Printed, frozen=True):
    """What was measured, when and how."""

    version: Annotated[
        str, Meta(description="The engine's that was measured, which may be another than the topology's.")
    ]
    date: str
    method: str


class Costs(Printed, frozen=True):
    """The figures of an engine for one topology."""

    measured: Measurement
    forward_us: Annotated[float, Meta(description="CPU microseconds of forwarding alone.")]
    features: Annotated[tuple[Cost, ...], Meta(description="Dearest first.")]


def costs(plan: Plan, engine: Engine, version: str) -> Costs | None:
    """What the features of `plan` cost on that version of the engine; None where nothing was measured."""
    data = _measured(engine, version)
    if data is None:
        return None
    found = []
    for answer in answers(plan, engine, version):
        name = answer.feature or ""
        if not answer.place and (figure := data["features"].get(name)) is not None:
            us, low, high = figure["us"], figure["low"], figure["high"]
            found.append(Cost(name, us, low, high, low <= 0, answer.fields, CHEAPER.get(name, "")))
    found.sort(key=lambda each: (each.noise, -each.us))
    measured = Measurement(data["version"], data["date"], data["method"])
    return Costs(measured, float(data["forward_us"]), tuple(found))


def _measured(engine: Engine, version: str) -> dict[str, Any] | None:
    """The record of the engine's version, else that of its newest measured one."""
    package = type(engine).__module__
    try:
        records = json.loads(files(package).joinpath(FILE).read_text(encoding="utf-8"))["builds"]
    except (OSError, TypeError, ModuleNotFoundError):
        return None
    of_version = [each for each in records if each["version"].startswith(f"{version}.")]
    return (of_version or records)[0] if records else None
