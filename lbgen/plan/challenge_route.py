"""The route that brings challenges of ACME to whoever answers them, and the names of certificates.

The route is made here, as a user would write it, so that engines, the oracle and `verify` serve it as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lbgen.plan.acme import CHALLENGE_PATH, CHALLENGES, Acme, AcmeCertificate
from lbgen.plan.expand import ExpandedTopology
from lbgen.spec.acme import CHALLENGE_PORT
from lbgen.spec.listener import Acme as WrittenAcme
from lbgen.spec.load import Topology
from lbgen.spec.model import TopologyModel
from lbgen.spec.pool import Pool
from lbgen.spec.route import Route

_FIRST = 1_000_001  # one more than a topology can write


class ChallengeRoute:
    """The route for challenges in a topology, on every L7 listener without TLS: of all tiers where a pool answers, else
    of those whose engine has the agent beside it. It comes before all other routes and has none of their policies."""

    def __init__(self, model: TopologyModel) -> None:
        self._model = model
        self._written = model.acme_challenge
        self._tiers = {x.tier for x in model.listeners.values() if x.tls is not None and x.tls.acme is not None}

    @property
    def pool(self) -> str | None:
        """The pool that answers; None where there are no challenges to route."""
        if self._written is not None and self._written.forward is not None:
            return self._written.forward
        return CHALLENGES if self.has_agent else None

    @property
    def has_agent(self) -> bool:
        """Whether the agent answers challenges."""
        return bool(self._tiers) or (self._written is not None and self._written.directory is not None)

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the listeners that have the route."""
        every = {name: x for name, x in self._model.listeners.items() if x.mode == "l7" and x.tls is None}
        if self.pool is None:
            return ()
        everywhere = self.pool != CHALLENGES or not self._tiers
        return tuple(name for name, x in every.items() if everywhere or x.tier in self._tiers)

    def add_to(self, expanded: ExpandedTopology) -> ExpandedTopology:
        """The topology with the route, and the agent as a pool."""
        if self.pool is None or not self.listeners:
            return expanded
        route = Route.model_validate(
            {
                "name": CHALLENGES,
                "listeners": list(self.listeners),
                "match": [{"path": {"prefix": CHALLENGE_PATH}}],
                "forward": self.pool,
            }
        ).model_copy(update={"priority": _FIRST})
        pools = dict(self._model.pools)
        if self.pool == CHALLENGES:
            port = CHALLENGE_PORT if self._written is None else self._written.port
            agent = {"endpoints": [{"address": f"127.0.0.1:{port}"}], "stand_ins": False}
            pools[CHALLENGES] = Pool.model_validate(agent)
        model = self._model.model_copy(update={"pools": pools, "routes": [*self._model.routes, route]})
        return ExpandedTopology(model, (*expanded.listeners, self.listeners))


def domains(acme: WrittenAcme, hosts: Sequence[str]) -> tuple[str, ...]:
    """The names of a listener's certificate: as written, else the `hosts` of its routes."""
    return tuple(dict.fromkeys(acme.domains if acme.domains is not None else hosts))


def listener_hosts(expanded: ExpandedTopology, listener: str) -> tuple[str, ...]:
    """The hosts of the routes on that listener, in the order of the file."""
    routes = zip(expanded.model.routes, expanded.listeners, strict=True)
    return tuple(dict.fromkeys(host for route, on in routes if listener in on for host in route.hosts or ()))


def resolve_acme(topology: Topology, model: TopologyModel, certificates: Sequence[AcmeCertificate]) -> Acme | None:
    """What the agent has to do in the plan of `model`; None where it has nothing to do."""
    written = model.acme_challenge
    folder = None if written is None or written.directory is None else str(topology.base / written.directory)
    if not certificates and (folder is None or CHALLENGES not in model.pools):
        return None
    port = CHALLENGE_PORT if written is None else written.port
    once = {each.certificate.cert.path: each for each in certificates}
    return Acme(port, tuple(once.values()), None if folder is None else str(Path(folder).absolute()))
