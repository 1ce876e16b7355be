"""`lbgen bench --faults`: the same faults on every engine, under a constant rate of requests."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.bench import constant_rate
from lbgen.bench.faults import SECONDS, Fault
from lbgen.bench.faults.effect import Stage, StoppedError
from lbgen.bench.faults.envelope import envelope_of, slow_seconds, uses_hash
from lbgen.bench.faults.report import Drill, FaultReport, Outcome, Window
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import BenchProgress, LoadShape, constant_rate_command, run_generator
from lbgen.bench.report import this_machine
from lbgen.bench.run import REQUESTS, plan_of
from lbgen.bench.subjects import moved_plans, wait_serving
from lbgen.bench.target import LoadTarget, choose_target
from lbgen.conformance.verify.addresses import LOOPBACK
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, UsageError
from lbgen.engines.api import Engine
from lbgen.plan.model import Mode, Plan
from lbgen.plan.request import Request
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.http1 import NAME
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

RATE = 100  # requests per second
MOST_RATE = 500  # what stand-ins answer while they also play faults
_CONNECTIONS = 2000  # at most; they are opened when they are needed
_START_SECONDS = 60.0


def drill(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    faults: Sequence[Fault] = tuple(Fault),
    *,
    request: Request | None = None,
    listener: str | None = None,
    rate: int = RATE,
    accept: tuple[str, ...] = (),
    requests: int = REQUESTS,
    progress: Callable[[BenchProgress], None] = no_progress,
) -> FaultReport:
    """Verify `engines` on `topology`, then bring about each fault on each of them under `rate` requests per second.

    Each engine is started anew for each fault, before stand-ins that play its endpoints. `request` and `listener` are
    as those of `lbgen.bench`; by default the request is one to a pool of several endpoints, if there is any.
    Raises what `lbgen.bench` raises.
    """
    if not 1 <= rate <= MOST_RATE:
        raise UsageError(Diagnostic("LB431", f"the rate of a drill is 1 to {MOST_RATE} requests per second"))
    plan = plan_of(topology)
    target = choose_target(plan, request, listener, several=True)
    good, left = verified_engines(plan, engines, accept, requests, progress)
    total = len(good) * len(faults)
    found: list[Drill] = []
    for fault in faults:
        for choice, engine in good:
            title = f"{fault}: {choice.name}: {fault.sentence}"
            progress(BenchProgress(title, len(found), total, (total - len(found)) * SECONDS))
            envelope = envelope_of(plan, target, fault)
            try:
                window, outcomes, detail = _run(plan, target, choice, fault, rate, accept)
                found.append(Drill.of(engine.engine, fault, envelope, outcomes, window, rate, detail))
            except LbgenError as error:
                found.append(Drill.of(engine.engine, fault, envelope, reasons=error.diagnostics))
    progress(BenchProgress("done", total, total))
    measured = tuple(engine for _, engine in good)
    return FaultReport(
        name=plan.name,
        **this_machine(),
        route=target.route,
        target=target.target,
        rate=rate,
        seconds=SECONDS,
        engines=measured,
        not_measured=tuple(left),
        faults=tuple(found),
    )


def _run(
    plan: Plan, target: LoadTarget, choice: EngineChoice, fault: Fault, rate: int, accept: tuple[str, ...]
) -> tuple[Window, tuple[Outcome, ...], str]:
    """One fault on one engine. Raises LbgenError."""
    (moved,) = moved_plans([(choice, plan)])
    players = [StandIn(x.field, pool.name, LOOPBACK, x.port, http=True) for pool in moved.pools for x in pool.endpoints]
    with (
        stand_in_servers(players) as stand_ins,
        run_engine(choice.engine, moved, choice.binary, accept=accept, seconds=_START_SECONDS) as handle,
    ):
        place = (LOOPBACK, moved.listener(target.listener).port)
        wait_serving(choice.name, place, target, handle)
        endpoint = _serving_endpoint(place, target) if uses_hash(plan, target) else target.endpoint
        late = slow_seconds(plan, target)
        stage = Stage(fault, handle, choice, stand_ins, endpoint, late, target)
        stage.prepare()
        # A balancer of layer 4 chooses an endpoint for each connection.
        shape = LoadShape(_CONNECTIONS, rate, keep_alive=plan.listener(target.listener).mode is not Mode.L4)
        command = constant_rate_command(shape, target, place, SECONDS, each=True)
        with ThreadPoolExecutor(1) as pool_:
            acting = pool_.submit(stage.run)
            try:
                output = run_generator(command, SECONDS + constant_rate.DRAIN_SECONDS, lambda: None)
            finally:
                stage.stop.set()
            try:
                acting.result()
            except StoppedError:
                raise EngineError(Diagnostic("LB430", "the load ended before the fault did")) from None
    figures = constant_rate.Figures(**json.loads(output))
    outcomes = tuple(sorted((Outcome(*each) for each in figures.each), key=lambda x: x.due))
    return Window(stage.begin - figures.began, stage.end - figures.began), outcomes, stage.detail


def _serving_endpoint(place: tuple[str, int], target: LoadTarget) -> str:
    """The endpoint that answers the request: the stand-ins name themselves."""
    plain = replace(target, server_name=None)
    connection = http.client.HTTPConnection(*place, timeout=5)
    try:
        connection.request("GET", plain.target, headers=dict(plain.headers))
        return connection.getresponse().getheader(NAME) or target.endpoint
    except (OSError, http.client.HTTPException):
        return target.endpoint
    finally:
        connection.close()
