"""`lbgen.bench`: verify engines on a topology, then measure them side by side under load."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lbgen.bench import endpoint as endpoint_program
from lbgen.bench.constant_rate import trusting_context
from lbgen.bench.gate import verified_engines
from lbgen.bench.generators import Generators
from lbgen.bench.load import LoadShape
from lbgen.bench.report import DIRECT, BenchReport, LoadOptions, MeasuredEngine, UnmeasuredEngine, Why, rows_of
from lbgen.bench.rounds import LADDER, BenchProgress, Measurement, Samples, Subject
from lbgen.bench.target import LoadTarget, choose_target
from lbgen.conformance.free_ports import FreePorts
from lbgen.conformance.verify.loopback import move_to_loopback
from lbgen.conformance.verify.messages import Job, JobProgress
from lbgen.conformance.verify.own_addresses import LOOPBACK
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, UsageError
from lbgen.plan.model import Metrics, Plan
from lbgen.runtime.common.ports import accepts
from lbgen.runtime.common.progress import no_progress
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.local.run_as import User
from lbgen.runtime.local.spawn import spawn, stop

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.request import Request
    from lbgen.runtime.local.messages import EngineChoice
    from lbgen.spec.load import Topology

CONNECTIONS = (50, 250)
SECONDS, ROUNDS = 4, 5
REQUESTS = 100  # per engine, of the verification before the load
BODY_BYTES = 5120
STREAMS = 10  # of each HTTP/2 connection
_START_SECONDS = 60.0
_OK = 200


def bench(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    request: Request | None = None,
    listener: str | None = None,
    connections: Sequence[int] = CONNECTIONS,
    seconds: int = SECONDS,
    rounds: int = ROUNDS,
    new_connections: bool = False,
    rates: Sequence[int] | None = None,
    ladder: Sequence[float] = LADDER,
    accept: tuple[str, ...] = (),
    requests: int = REQUESTS,
    progress: Callable[[BenchProgress], None] = no_progress,
) -> BenchReport:
    """Verify `engines` (default: all that can) on at most `requests` requests, and measure those that passed.

    They run as local processes on free ports of 127.0.0.1, all in front of one endpoint that answers from memory. They
    and the endpoint itself are loaded in turn, `rounds` times `seconds`, after a second of warm-up each: by wrk in a
    closed loop at each number of `connections` (with `new_connections` also one for each request), then at constant
    `rates` of requests per second (None: at the shares `ladder` of what the fastest engine answered, without the
    engines that answered less themselves; (): none). Where the listener speaks HTTP/2, h2load measures that in a closed
    loop too, if it is in PATH. `request`: the GET to send, of a listener of the plan (default: the first that is
    forwarded, on `listener` or any). An engine that differs or fails is in the report, and is not measured.

    Raises LbgenError (findings, verdicts), UsageError LB305 and LB431 (tiers, nothing to measure), EngineError LB402
    and LB430 (wrk is missing or failed), LB403 (the endpoint or an engine ended meanwhile).
    """
    if seconds < 1 or rounds < 1 or not connections or min((*connections, *(rates or ()), 1)) < 1:
        raise UsageError(Diagnostic("LB431", "seconds, rounds, connections and rates of a benchmark are at least 1"))
    generators = Generators.find()
    plan = _plan_of(topology)
    target = choose_target(plan, request, listener)
    progress(BenchProgress("verifying"))

    def verifying(event: JobProgress) -> None:
        progress(BenchProgress(f"verifying {event.engine}: {event.what} {event.done}/{event.total}"))

    good, left = verified_engines(plan, engines, accept, requests, verifying)
    samples: Samples = []
    closed = _closed_loops(sorted(set(connections)), target, generators, new_connections)
    failed: list[UnmeasuredEngine] = []
    if good:
        with _running(plan, good, target, accept) as (subjects, failed):
            if len(subjects) > 1:
                samples = Measurement(
                    subjects,
                    generators,
                    target,
                    closed,
                    seconds,
                    rounds,
                    None if rates is None else tuple(sorted(set(rates))),
                    tuple(ladder),
                    progress,
                ).run()
    rows = rows_of(samples)
    options = LoadOptions({row.shape: generators.name(row.shape) for row in rows}, target, seconds, rounds, BODY_BYTES)
    gone = {each.engine for each in failed}
    measured = tuple(engine for _, engine in good if engine.engine not in gone)
    return BenchReport(plan.name, os.cpu_count() or 1, options, measured, (*left, *failed), rows)


def _closed_loops(
    connections: Sequence[int], target: LoadTarget, generators: Generators, new_connections: bool
) -> list[LoadShape]:
    """As many requests at a time over each protocol; HTTP/2 where the listener and a generator speak it."""
    found = [LoadShape(each) for each in connections]
    if new_connections:
        found += [LoadShape(each, keep_alive=False) for each in connections]
    if target.http2 and generators.h2load is not None:
        found += [LoadShape(-(-each // STREAMS), streams=min(each, STREAMS)) for each in connections]
    return found


def _plan_of(topology: Topology | Plan) -> Plan:
    if isinstance(topology, Plan):
        return topology
    if topology.model.tiers is not None:
        raise UsageError(Diagnostic("LB431", "a topology of tiers cannot be measured", field="tiers"))
    from lbgen.plan.resolve import plan as resolve

    return resolve(topology)


@contextmanager
def _running(
    plan: Plan, good: Sequence[tuple[EngineChoice, MeasuredEngine]], target: LoadTarget, accept: tuple[str, ...]
) -> Iterator[tuple[list[Subject], list[UnmeasuredEngine]]]:
    """The endpoint and every engine before it, for as long as the block lasts; and the engines that did not start."""
    jobs = move_to_loopback(
        [Job(x.name, x.version, x.binary, replace(plan, resolvers=x.resolvers), (), isolated=False) for x, _ in good]
    )
    taken = {p for job in jobs for p in _ports(job.plan)}
    free = FreePorts(avoid=taken)
    plans = [_with_metrics(job.plan, free) for job in jobs]
    endpoints = [endpoint for each in plans for pool in each.pools for endpoint in pool.endpoints]
    direct = next(endpoint.port for endpoint in endpoints if endpoint.field == target.endpoint)
    failed: list[UnmeasuredEngine] = []
    with ExitStack() as stack:
        stack.enter_context(_endpoint([each.port for each in endpoints]))
        subjects = [Subject(DIRECT, direct)]
        for (choice, _), moved in zip(good, plans, strict=True):
            try:
                engine = run_engine(choice.engine, moved, choice.binary, accept=accept, seconds=_START_SECONDS)
                subject = Subject(choice.name, moved.listener(target.listener).port, stack.enter_context(engine))
                _wait_serving(subject, target)
                subjects.append(subject)
            except LbgenError as error:
                failed.append(UnmeasuredEngine(choice.name, Why.FAILED, error.diagnostics))
        yield subjects, failed


def _ports(plan: Plan) -> Iterator[int]:
    yield from (listener.port for listener in plan.listeners)
    yield from (endpoint.port for pool in plan.pools for endpoint in pool.endpoints)


def _with_metrics(plan: Plan, free: FreePorts) -> Plan:
    """Engines that run side by side cannot share the port of their metrics."""
    return plan if plan.metrics is None else replace(plan, metrics=Metrics(LOOPBACK, free.take()))


@contextmanager
def _endpoint(ports: list[int]) -> Iterator[None]:
    """The process that answers on all these ports; it ends with the block, or with this process."""
    order = json.dumps({"address": LOOPBACK, "ports": ports, "body_bytes": BODY_BYTES})
    argv = [sys.executable, "-I", "-S", str(endpoint_program.__file__), order]
    with TemporaryDirectory(prefix="lbgen-bench-") as folder:
        log = Path(folder) / "output.log"
        with log.open("wb") as output:
            process = spawn(argv, user=User(), directory=Path(folder), output=output)
        try:
            end = time.monotonic() + _START_SECONDS
            while not all(accepts(LOOPBACK, port) for port in ports):
                if process.poll() is not None or time.monotonic() > end:
                    text = log.read_text("utf-8", "replace")[-500:]
                    raise EngineError(Diagnostic("LB403", f"the endpoint of the benchmark did not start: {text}"))
                time.sleep(0.02)
            yield
        finally:
            stop(process, SIGTERM, 2.0)


def _wait_serving(subject: Subject, target: LoadTarget) -> None:
    """Return once the target is answered with 200. EngineError LB403 with the last status."""
    end = time.monotonic() + _START_SECONDS
    name = None if subject.process is None else target.server_name
    while (status := _get(subject.port, target, name)) != _OK:
        if subject.process is not None:
            subject.process.ensure_alive()
        if time.monotonic() > end:
            message = f"{subject.name} answers {target.target} with status {status} instead of {_OK}"
            raise EngineError(Diagnostic("LB403", message))
        time.sleep(0.05)


def _get(port: int, target: LoadTarget, server_name: str | None) -> int:
    """The status of one GET; 0 without an answer."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.connect()
        if server_name is not None:
            connection.sock = trusting_context().wrap_socket(connection.sock, server_hostname=server_name)
        connection.putrequest("GET", target.target, skip_host=True, skip_accept_encoding=True)
        for name, value in target.headers:
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
