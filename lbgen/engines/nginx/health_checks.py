"""The server lines of an upstream block, which the agent rewrites while nginx runs where endpoints are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.engines.api import RenderedFile
from lbgen.engines.checks import AgentSpec, checked_pools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.nginx.view import Upstream
    from lbgen.plan.model import Plan, Pool

_STEPS = 10  # a slow start goes by tenths of the weight
_FULL = 100


def server(address: str, weight: int, options: str, *, percent: int = _FULL, scale: int = 1) -> str:
    """One `server` line without its semicolon, for `percent` of the weight."""
    share = 0 if not weight or not percent else max(1, weight * scale * percent // _FULL)
    weighted = f" weight={share}" if share > 1 else ""
    return f"server {address}{weighted}{options}{'' if share else ' down'}"


def files(upstreams: Iterable[Upstream]) -> tuple[RenderedFile, ...]:
    """The included files of those upstreams that the agent steers, with every endpoint up."""
    found = {}
    for upstream in upstreams:
        if upstream.include is not None:
            name, content = upstream.include.text, _content(upstream)
            origins = tuple(e.origin.text for e in upstream.endpoints)
            found[name] = RenderedFile(name, _text(content, {}), origins)
    return tuple(found.values())


def steered(plan: Plan) -> bool:
    """Whether the agent works beside nginx."""
    return any(pool.active for pool in plan.pools)


def may_be_empty(pool: Pool) -> bool:
    """Whether there may be no endpoint to ask: names that resolve to nothing, checks that all fail, all have enough."""
    return (
        pool.active is not None
        or pool.max_per_endpoint is not None
        or pool.passive is not None
        or any(not e.is_ip for e in pool.endpoints)
        or not any(e.weight for e in pool.endpoints)
    )


def agent(plan: Plan, upstreams: Iterable[Upstream]) -> RenderedFile:
    """The order for `lbgen agent`: the pools that these upstreams use."""
    used = {u.include.text: u for u in upstreams if u.include is not None}
    names = {u.pool.text for u in used.values()}
    pools = checked_pools(pool for pool in plan.pools if pool.name in names)
    steering = {name: _content(u) for name, u in used.items()}
    return AgentSpec("nginx", "nginx", "nginx.pid", "SIGHUP", pools, steering).file()


def steer(steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
    """Every included file for these shares; see `lbgen.engines.checks.Steered`."""
    return {name: _text(content, shares.get(content["pool"], {})) for name, content in steering.items()}


def _content(upstream: Upstream) -> dict[str, Any]:
    """JSON data from which the lines are made again and again."""
    servers = [[e.address.text, e.weight, e.options.text] for e in upstream.endpoints]
    # The weights of all are multiplied beforehand, so that tenths of them are whole numbers. Never only for a while:
    # with hashing that would move keys about.
    return {"pool": upstream.pool.text, "scale": _STEPS if upstream.slow_start else 1, "servers": servers}


def _text(content: Mapping[str, Any], shares: Mapping[str, int]) -> str:
    lines = (
        server(address, weight, options, percent=shares.get(address, _FULL), scale=content["scale"])
        for address, weight, options in content["servers"]
    )
    return "".join(f"{line};\n" for line in lines)
