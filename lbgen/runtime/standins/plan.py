"""Plans stand-ins for the pools of a plan, with the protocols of their endpoints, and the plan that uses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.plan.model import Forward, Plan, Pool, Protocol
from lbgen.plan.overlay import with_endpoints
from lbgen.plan.tls import File
from lbgen.runtime.common import ports
from lbgen.runtime.common.certificates import CA, Spec, make
from lbgen.runtime.standins.stand_in import StandIn, StandInTls

_FROM = 26_000  # above the ports that several engines get, below the ephemeral ones
_ANY_STATUS = ((200, 299),)


class StandInSet(Struct, frozen=True):
    """The stand-ins of a plan: `ports` by the field of the endpoint that each plays."""

    stand_ins: tuple[StandIn, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    folder: Path | None = None  # of the certificates that were made for them
    certificates: tuple[Spec, ...] = ()

    def apply_to(self, plan: Plan, host: str) -> Plan:
        """Return `plan` with its endpoints replaced by stand-ins on `host`; it trusts their certificates and checks."""
        if not self.ports:
            return plan
        plan = with_endpoints(plan, {name: (host, port) for name, port in self.ports.items()})
        return replace(plan, pools=tuple(x if x.real else self._pool(x) for x in plan.pools))

    def _pool(self, pool: Pool) -> Pool:
        if pool.tls is not None and self.folder is not None:
            ours = File("tls/lbgen-stand-ins.crt", str(self.folder / f"{CA}.crt"))
            pool = replace(pool, tls=replace(pool.tls, ca=ours))
        if pool.active is not None:  # nothing listens on another port, and a stand-in answers 200
            pool = replace(pool, active=replace(pool.active, port=None, statuses=_ANY_STATUS))
        return pool


def plan_stand_ins(
    plan: Plan,
    hosts: tuple[str, ...],
    taken: frozenset[int],
    folder: Path,
    port_from: Callable[[str, int, frozenset[int]], int] = ports.free_port,
    before: StandInSet | None = None,
) -> StandInSet:
    """One stand-in per endpoint of a played pool on free ports of each of `hosts`, the first of which is listed, and
    another for datagrams on the same port where UDP routes lead to the pool.

    Certificates for those that speak TLS are made in `folder` unless they are there. With `before` those that would be
    the same stay: a stand-in on its port, all certificates in their folder. Raises EngineError LB404.
    """
    chosen: dict[str, int] = {}
    stand_ins = []
    secured = _certificates(plan, hosts)
    udp = datagram_pools(plan)
    there = {} if before is None else {replace(each, port=0): each.port for each in before.stand_ins}
    last = max(there.values(), default=_FROM - 1)
    if before is not None and before.folder is not None and before.certificates == tuple(secured.values()):
        folder = before.folder
    for pool in stand_in_pools(plan):
        tls = None
        if pool.name in secured:
            path = folder / secured[pool.name].name
            tls = StandInTls(f"{path}.crt", f"{path}.key")
        for endpoint in pool.endpoints:
            player = StandIn(endpoint.field, pool.name, hosts[0], 0, tls=tls, proxied=pool.proxy_protocol is not None)
            port = there.get(player)
            if port is None:
                last = port = port_from(hosts[0], last + 1, taken)
            chosen[endpoint.field] = port
            for host in hosts:
                at = "" if host == hosts[0] else f"@{host}"
                stand_ins.append(replace(player, name=f"{endpoint.field}{at}", host=host, port=port))
                if pool.name in udp:
                    name = f"{endpoint.field}/udp{at}"
                    stand_ins.append(StandIn(name, pool.name, host, port, datagrams=True))
    if secured and not all((folder / f"{spec.name}.crt").is_file() for spec in secured.values()):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        make(folder, tuple(secured.values()))
    return StandInSet(tuple(stand_ins), chosen, folder if secured else None, tuple(secured.values()))


def stand_in_pools(plan: Plan) -> tuple[Pool, ...]:
    """Return the pools that get stand-ins; the others keep their own endpoints."""
    return tuple(pool for pool in plan.pools if not pool.real)


def datagram_pools(plan: Plan) -> frozenset[str]:
    """Return the pools that UDP routes lead to."""
    rules = (rule for listener in plan.listeners if listener.protocol is Protocol.UDP for rule in listener.l4_rules)
    actions = (plan.route(rule.route).action for rule in rules)
    return frozenset(target.pool for action in actions if isinstance(action, Forward) for target in action.targets)


def describe_pools(plan: Plan) -> str:
    """Say which pools keep their own endpoints and which get stand-ins."""
    own = [pool.name for pool in plan.pools if pool.real]
    others = [pool.name for pool in stand_in_pools(plan)]
    others_words = f"stand-ins for {', '.join(others)}; --real-endpoints forwards to the pools' own" if others else ""
    words = (f"their own for {', '.join(own)}" if own else "", others_words)
    return "; ".join(word for word in words if word)


def _certificates(plan: Plan, hosts: tuple[str, ...]) -> dict[str, Spec]:
    """Return the certificate of the stand-ins of each pool that speaks TLS."""
    behind = _behind_passthrough(plan)
    found = {}
    for pool in stand_in_pools(plan):
        if pool.tls is not None or pool.name in behind:
            names = (*hosts, *((pool.tls.server_name,) if pool.tls is not None and pool.tls.server_name else ()))
            found[pool.name] = Spec(f"pool-{pool.name}", names)
    return found


def _behind_passthrough(plan: Plan) -> frozenset[str]:
    """Return the pools whose endpoints terminate the TLS of clients."""
    found: set[str] = set()
    for listener in plan.listeners:
        if listener.tls is not None and listener.tls.passthrough:
            for rule in listener.l4_rules:
                action = plan.route(rule.route).action
                if isinstance(action, Forward):
                    found.update(target.pool for target in action.targets)
    return frozenset(found)
