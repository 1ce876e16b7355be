"""The files by which the agent steers an engine; apart from `run`, so that a reload need not import its clients."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from lbgen.agent import least_connections, state_file
from lbgen.agent.health import Health, share
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.agent_spec import AgentSpec, Steered
from lbgen.engines.api import engine

READER = msgspec.json.Decoder(AgentSpec)


def steered_engine(name: str) -> Steered:
    """The engine of that name. Raises EngineError LB410 when it does not use an agent."""
    target = engine(name)
    if not isinstance(target, Steered):
        raise EngineError(Diagnostic("LB410", f"{target.title} does not use an agent"))
    return target


def steering(
    spec: AgentSpec,
    states: state_file.States,
    steered: Steered,
    loads: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> Mapping[str, str]:
    """The engine's files for those states and loads; an endpoint without a state is up."""
    now = time.time()
    up = Health(now)
    shares = {
        pool.name: {t.name: share(states.get((pool.name, t.name), up), now, pool.slow_start) for t in pool.targets}
        for pool in spec.pools
    }
    for pool, percents in loads.items():
        healthy = shares.setdefault(pool, {})
        for name, percent in percents.items():
            own = healthy.get(name, least_connections.FULL)
            healthy[name] = max(1, own * percent // least_connections.FULL) if own and percent else 0
    return steered.set_weights(spec.steering, shares)


def steering_files(order: str, folder: Path) -> Mapping[str, str]:
    """The engine's files for a new specification (`order`, the text of its file) with the states that the agent in
    `folder` has found, so that the engine does not use endpoints that are down."""
    spec = READER.decode(order)
    return steering(spec, state_file.last_states(folder), steered_engine(spec.engine))
