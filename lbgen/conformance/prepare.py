"""Prepare a case file for an engine: plans on free ports, the whole one for the oracle and the part that it serves."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import CaseFile, StandInSpec
from lbgen.conformance.free_ports import FreePorts
from lbgen.engines.api import ROUTES, Level, Verdict, engine
from lbgen.engines.verdicts import concerns, objections_on, verdict_on
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.features import all_features
from lbgen.plan.model import Forward, Plan, Pool, Route
from lbgen.plan.overlay import with_endpoints, with_ports
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.standins.plan import datagram_pools
from lbgen.runtime.standins.stand_in import StandIn, StandInTls
from lbgen.spec.load import load

_AS_EXPECTED = StandInSpec()
_ROUTE = re.compile(r"routes\[(\d+)\]")
_DIFFERS = (Level.HABIT, Level.APPROXIMATE, Level.REFUSED)
OWN_HEADERS = "statuses.failures.server"  # the part of a verdict; a case of its own shows it


class DeclaredDifference(Struct, frozen=True):
    """A feature that an engine honours in its own way, approximately or not at all (`level`), whether the topology uses
    it or not; `route` "" = everywhere. Such a verdict excuses cases that name the feature, as far as `differs` says."""

    feature: str
    note: str
    route: str = ""
    level: Level = Level.APPROXIMATE
    differs: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Verdicts(Struct, frozen=True):
    """Routes and listeners that an engine refuses (name and reason), and features that it approximates."""

    routes: Mapping[str, str]
    listeners: Mapping[str, str]
    near: tuple[DeclaredDifference, ...]


class Prepared(Struct, frozen=True):
    """`whole` is for the oracle, `served` for the engine (None: it can serve nothing); both on the same ports."""

    whole: Plan
    served: Plan | None
    stand_ins: tuple[StandIn, ...]
    verdicts: Verdicts


def plan_of(data: dict[str, Any]) -> Plan:
    """The plan of a topology given as data; LbgenError when it has findings. Its files are the throw-away ones."""
    return resolve(replace(load(data), base=temporary_certificates()))


def prepare(file: CaseFile, engine_name: str, version: str, host: str = "127.0.0.1") -> Prepared:
    """Plans and stand-ins (on `host`) of `file` for one engine, on ports of their own."""
    whole = plan_of(file.topology)
    verdicts = verdicts_on(whole, engine_name, version)
    if not verdicts.routes and not verdicts.listeners:
        served: Plan | None = whole
    else:
        data = without_refused(file.topology, verdicts)
        served = plan_of(data) if data is not None else None
    return on_free_ports(file, whole, served, verdicts, host)


def verdicts_on(plan: Plan, engine_name: str, version: str) -> Verdicts:
    """The verdicts of an engine on every use of the plan, by route and listener."""
    target = engine(engine_name)
    routes: dict[str, str] = {}
    listeners: dict[str, str] = {}
    near = [
        DeclaredDifference(f, v.note, level=v.level, differs=_besides_routes(v))
        for f in all_features()
        if (v := verdict_on(plan, target, f, version)).level in _DIFFERS
    ]

    def refuse(field: str, reason: str) -> None:
        if _ROUTE.match(field) or field.startswith("pools."):
            for name in _routes_of(plan, field):
                routes.setdefault(name, reason)
        else:
            hit = [x for x in plan.listeners if field == x.field or field.startswith(x.field + ".")]
            for listener in hit or plan.listeners:
                listeners.setdefault(listener.name, reason)

    for feature, every in plan.uses_by_feature().items():
        uses = [use for use in every if concerns(use.field, target)]
        if not uses:
            continue
        verdict = verdict_on(plan, target, feature, version)
        if verdict.level is Level.REFUSED:
            for use in uses:
                refuse(use.field, f"{feature}: {verdict.note}")
        elif by_route := tuple(each for each in verdict.differs if each not in _besides_routes(verdict)):
            for name in dict.fromkeys(name for use in uses for name in _routes_of(plan, use.field) or [""]):
                near.append(DeclaredDifference(feature, verdict.note, name, verdict.level, by_route))
    for objection in objections_on(plan, target, version):
        if objection.verdict.level in (Level.HABIT, Level.APPROXIMATE):
            verdict, feature_name = objection.verdict, objection.feature or ""
            for name in _routes_of(plan, objection.field) or [""]:
                near.append(DeclaredDifference(feature_name, verdict.note, name, verdict.level, verdict.differs))
        elif objection.verdict.level is Level.REFUSED:
            refuse(objection.field, f"{objection.field}: {objection.verdict.note}")
    return Verdicts(routes, listeners, tuple(near))


def _besides_routes(verdict: Verdict) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What a verdict declares, but for what shows on the routes that use the feature."""
    return tuple(each for each in verdict.differs if not each[0].endswith(ROUTES))


def own_headers(near: Iterable[DeclaredDifference]) -> frozenset[tuple[str, str]]:
    """Headers that all answers of the engine's own have, by its verdict on statuses."""
    words = [word for n in near for part, given in n.differs if part == OWN_HEADERS for word in given]
    return frozenset((name, value) for name, _, value in (w.removeprefix("header ").partition(": ") for w in words))


def _routes_of(plan: Plan, field: str) -> list[str]:
    """The routes that a field of a route or of a pool is about; none for other fields."""
    if found := _ROUTE.match(field):
        return [route.name for route in plan.routes if route.index == int(found[1])]
    pools = {p.name for p in plan.pools if field == p.field or field.startswith((p.field + ".", p.field + "["))}

    def used(route: Route) -> set[str]:
        action = route.action
        asked = {route.auth.pool} if isinstance(route.auth, ForwardAuth) else set[str]()
        if not isinstance(action, Forward):
            return asked
        return asked | {to.pool for to in action.targets} | {mirror.pool for mirror in action.mirrors}

    return [route.name for route in plan.routes if used(route) & pools]


def without_refused(topology: dict[str, Any], verdicts: Verdicts) -> dict[str, Any] | None:
    """The topology minus what is refused; None when nothing is left."""
    data = copy.deepcopy(topology)
    for name in verdicts.listeners:
        del data["listeners"][name]
    kept = []
    for route in data["routes"]:
        if route["name"] in verdicts.routes:
            continue
        if "listeners" in route:
            route["listeners"] = [x for x in route["listeners"] if x in data["listeners"]]
            if not route["listeners"]:
                continue
        kept.append(route)
    data["routes"] = kept
    everywhere = any("listeners" not in r for r in kept)
    used = {x for r in kept for x in r.get("listeners", ())}
    for name, listener in list(data["listeners"].items()):
        if name not in used and (listener.get("mode") == "l4" or not everywhere):
            del data["listeners"][name]
    asking = [*kept, *data["listeners"].values()]
    asked = [each["auth"]["forward"]["pool"] for each in asking if "pool" in _forward_auth(each)]
    used_pools = {p for r in kept for p in (*_pools(r.get("forward")), *_pools(r.get("mirror")))} | {*asked}
    data["pools"] = {n: p for n, p in data.get("pools", {}).items() if n in used_pools}
    return data if kept and data["listeners"] else None


def _forward_auth(guarded: dict[str, Any]) -> dict[str, Any]:
    """`auth.forward` of a route or a listener, as topology data."""
    auth = guarded.get("auth")
    found: dict[str, Any] = auth.get("forward", {}) if isinstance(auth, dict) else {}
    return found


def _pools(targets: Any) -> Iterator[str]:  # noqa: ANN401  # topology data
    """Pools of a `forward` or a `mirror`: a name, a mapping or a list of mappings."""
    if isinstance(targets, str):
        yield targets
    for target in targets if isinstance(targets, list) else [targets] if isinstance(targets, dict) else ():
        yield target["pool"]


def _tls(pool: Pool, spec: StandInSpec) -> StandInTls | None:
    """What an endpoint of that pool speaks."""
    if pool.tls is None or spec.plain:
        return None
    folder = temporary_certificates()
    client_ca = str(folder / f"{spec.client_ca}.crt") if spec.client_ca else ""
    certificate, key = (str(folder / f"{spec.certificate}.{kind}") for kind in ("crt", "key"))
    return StandInTls(certificate, key, client_ca, spec.client_required)


def on_free_ports(file: CaseFile, whole: Plan, served: Plan | None, verdicts: Verdicts, host: str) -> Prepared:
    """Both plans with free ports for listeners and stand-ins for every endpoint that is an address."""
    free = FreePorts()
    ports = {x.name: free.take() for x in whole.listeners}
    addresses: dict[str, tuple[str, int]] = {}
    stand_ins: list[StandIn] = []
    moved: dict[int, int] = {}
    udp = datagram_pools(whole)
    for pool in whole.pools:
        for number, endpoint in enumerate(pool.endpoints):
            if not endpoint.is_ip:
                continue
            spec = file.stand_ins.get(f"{pool.name}-{number}", file.stand_ins.get(pool.name))
            stand_in = StandIn(
                f"{pool.name}-{number}", pool.name, host, free.take(), tls=_tls(pool, spec or _AS_EXPECTED)
            )
            stand_in = replace(stand_in, proxied=pool.proxy_protocol is not None, datagrams=pool.name in udp)
            if spec is not None:
                stand_in = replace(stand_in, behaviour=spec.behaviour, listen=spec.listen)
            stand_ins.append(stand_in)
            addresses[endpoint.field] = (stand_in.host, stand_in.port)
            moved[endpoint.port] = stand_in.port

    def at_stand_ins(plan: Plan) -> Plan:
        """A check's own port moves with the endpoint that has it."""
        there = with_endpoints(with_ports(plan, ports), addresses)
        return replace(there, pools=tuple(_checked(pool, moved) for pool in there.pools))

    return Prepared(at_stand_ins(whole), None if served is None else at_stand_ins(served), tuple(stand_ins), verdicts)


def _checked(pool: Pool, moved: Mapping[int, int]) -> Pool:
    if pool.active is None or pool.active.port is None:
        return pool
    return replace(pool, active=replace(pool.active, port=moved[pool.active.port]))
