"""Sends the corpus to an engine, and collects what breaks a promise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.conformance.case import CaseFile
from lbgen.conformance.prepare import Verdicts, on_free_ports, prepare
from lbgen.conformance.safety.clients import Clients, Flood, floods
from lbgen.conformance.safety.corpus import Attack, Target, attacks, targets
from lbgen.conformance.safety.endpoint import MARK, Endpoints, Message, endpoints
from lbgen.conformance.safety.judge import Breach, asked_about, judge_arrival
from lbgen.conformance.transport import without_verification
from lbgen.conformance.wait_ready import wait_ready
from lbgen.plan.model import Forward, Mode, Plan, PoolProtocol
from lbgen.runtime.local.process import run_engine

if TYPE_CHECKING:
    from lbgen.conformance.engine_under_test import EngineUnderTest

_TOGETHER = 8  # attacks at a time
_QUIET = 0.3  # seconds without an arrival


class SafetyReport(Struct):
    """`tried` attacks, the `breaches` of the promises (the first one of each attack), and what was `not_tried`, with
    reasons."""

    tried: int = 0
    breaches: list[Breach] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)


def guarded_plan(subject: EngineUnderTest, profile: str = "") -> tuple[Plan, list[str]]:
    """The plan of the guarded topology, by a profile or the default one, without what the engine refuses, which is
    listed."""
    topology = yaml.safe_load(Path(__file__).with_name("topology.yaml").read_text(encoding="utf-8"))
    topology |= {"profile": profile} if profile else {}
    ready = prepare(CaseFile("safety", "safety", topology, {}, ()), subject.engine, subject.version)
    assert ready.served is not None  # noqa: S101  # every L7 engine can serve some of it
    refused = (*ready.verdicts.routes.items(), *ready.verdicts.listeners.items())
    return ready.served, [f"{name}: {reason}" for name, reason in refused]


def with_plain_pools(plan: Plan) -> Plan:
    """The plan with pools of plain HTTP/1.1, as only that can be read in two ways, and without checks of endpoints, and
    so without backups."""
    pools = (
        replace(
            each,
            protocol=PoolProtocol.HTTP1,
            tls=None,
            active=None,
            passive=None,
            proxy_protocol=None,
            endpoints=tuple(replace(endpoint, backup=False) for endpoint in each.endpoints),
        )
        for each in plan.pools
    )
    return replace(plan, pools=tuple(pools))


def judge_safety(plan: Plan, subject: EngineUnderTest, most: int | None = None) -> SafetyReport:
    """Serve `plan` on this host with the engine of `subject`, on free ports and with endpoints of our own, and send it
    the corpus (`most`: see `attack_engine`). Raises EngineError, LbgenError where the engine does not start."""
    assert subject.binary is not None  # noqa: S101  # the caller skips what is not here
    plan = with_plain_pools(plan)
    ready = on_free_ports(CaseFile("safety", plan.name, {}, {}, ()), plan, plan, Verdicts({}, {}, ()), "127.0.0.1")
    with (
        endpoints(ready.stand_ins) as group,
        run_engine(subject.engine, ready.whole, subject.binary, accept=("all",)) as handle,
    ):
        wait_ready(ready.whole, handle, asked=without_verification)
        report = attack_engine(ready.whole, Clients(ready.whole, handle), group, most)
        handle.ensure_alive()
        return report


def attack_engine(plan: Plan, clients: Clients, group: Endpoints, most: int | None = None) -> SafetyReport:
    """Send every attack and flood to the engine in front of `group`, then judge what arrived. `most`: so many attacks
    at most, always the same ones, and floods on the first listener only."""
    known = targets(plan)
    l7 = [each.name for each in plan.listeners if each.mode is Mode.L7]
    not_tried = [f"{name}: none of its routes takes a plain GET of everybody" for name in l7 if name not in known]
    plain: dict[str, Message] = {}  # what arrives of a plain request, by listener
    breaches: list[Breach] = []
    _settle(group)
    group.arrivals.clear()
    for name, (target, *_) in known.items():
        breaches += [Breach("S4", "a plain request", each) for each in clients.serve_innocent(target)]
        if group.arrivals and (message := group.arrivals[-1].message) is not None:
            plain[name] = message
    found_attacks = [each for each in attacks(plan) if each.target.listener in plain]
    every = {each.mark: each for each in found_attacks[:: max(1, -(-len(found_attacks) // most)) if most else 1]}
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for found in pool.map(lambda each: [*_attack(clients, each)], every.values()):
            breaches += found
    flooded = [every_target[0] for name, every_target in known.items() if name in plain][: 1 if most else None]
    every_flood = [(target, *each) for target in flooded for each in floods(plan.listener(target.listener)).items()]
    for target, name, flood in every_flood:
        breaches += [Breach("S4", name, each) for each in _flood(flood, clients, target)]
        breaches += [Breach("S4", name, each) for each in clients.serve_innocent(target)]
    breaches += _judge(plan, group, every, plain)
    first: dict[tuple[str, str], Breach] = {}
    for breach in breaches:
        first.setdefault((breach.rule, breach.attack), breach)
    return SafetyReport(len(every) + len(every_flood), list(first.values()), not_tried)


def _settle(group: Endpoints) -> None:
    """Wait until the copies that mirrors get of readiness requests have arrived, as no attack explains them."""
    seen = -1
    while seen != len(group.arrivals):
        seen = len(group.arrivals)
        time.sleep(_QUIET)


def _flood(flood: Flood, clients: Clients, target: Target) -> Iterator[str]:
    """What a flood finds; an engine that stops reading, or ends the connection, has stopped it."""
    with suppress(OSError):
        yield from flood(clients, target)


def _attack(clients: Clients, attack: Attack) -> Iterator[Breach]:
    """Attack, then look how another client fares."""
    try:
        got = clients.attack(attack)
    except OSError as error:
        yield Breach("S4", attack.shown, f"no connection: {error}")
        return
    if others := set(MARK.findall(got)) - {attack.mark.encode()}:
        yield Breach("S1", attack.shown, f"it got the answer of another client: {others}")
    for each in clients.serve_innocent(attack.target):
        yield Breach("S4", attack.shown, each)


def _judge(plan: Plan, group: Endpoints, every: Mapping[str, Attack], plain: Mapping[str, Message]) -> Iterator[Breach]:
    rewrites = [each.action.rewrite for each in plan.routes if isinstance(each.action, Forward)]
    replaced = {each.path for each in rewrites if each is not None}
    for arrival in tuple(group.arrivals):
        marks = sorted(each.decode() for each in arrival.marks)
        attack = next((every[each] for each in marks if each in every), None)
        if attack is not None:
            yield from judge_arrival(plan, attack, arrival, plain[attack.target.listener])
        elif not marks and arrival.message is not None and asked_about(plan, arrival.pool, arrival.message) is not None:
            continue  # a service learns neither body nor other fields, where an attack may have its mark
        elif not marks and arrival.message is not None and arrival.message.target.partition("?")[0] in replaced:
            continue  # the route replaces the path, where an attack may have its mark
        elif arrival.problem or len(marks) != 1:
            shown = f"{arrival.problem} {(arrival.head + arrival.body)[:300]!r}"
            yield Breach("S1", "none", f"a request that nobody sent, or bytes of several clients in one: {shown}")
