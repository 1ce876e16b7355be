"""Servers of upstreams and whether they are up: by nginx's own counts of failures, and by active checks, for which
`lbgen agent` rewrites included files before it reloads nginx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lbgen.engines.agent_spec import AgentSpec, checked_pools
from lbgen.engines.api import RenderedFile
from lbgen.engines.nginx.statements import Upstream
from lbgen.engines.nginx.view import Contributor, UpstreamPool
from lbgen.plan.model import Endpoint, Plan

_FULL_WEIGHT = 100  # percent
_SLOW_START_STEPS = 10


def uses_agent(plan: Plan) -> bool:
    """Whether `lbgen agent` runs beside nginx."""
    return any(pool.active for pool in plan.pools)


def server_files(upstreams: Iterable[Upstream]) -> tuple[RenderedFile, ...]:
    """The included files with the servers of checked upstreams, all of them up."""
    files = {}
    for upstream in upstreams:
        if upstream.include is not None:
            name, servers = upstream.include.text, _servers(upstream)
            files[name] = RenderedFile(name, _content(servers, {}), tuple(e.origin.text for e in upstream.endpoints))
    return tuple(files.values())


def agent_file(plan: Plan, upstreams: Iterable[Upstream]) -> RenderedFile:
    """The spec of `lbgen agent` for the checked pools among these upstreams."""
    checked = {u.include.text: u for u in upstreams if u.include is not None}
    names = {u.pool.text for u in checked.values()}
    pools = checked_pools(pool for pool in plan.pools if pool.name in names)
    steering = {name: _servers(u) for name, u in checked.items()}
    return AgentSpec("nginx", "nginx", "nginx.pid", "SIGHUP", pools, steering).file()


def set_weights(steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
    """The content of every included file; `shares` are percentages of the weight by pool and address."""
    return {name: _content(servers, shares.get(servers["pool"], {})) for name, servers in steering.items()}


def _servers(upstream: Upstream) -> dict[str, Any]:
    """JSON data of an included file. With slow start all weights are scaled so that steps are whole numbers; they stay
    scaled, since a change of scale would move the keys of a hash."""
    servers = [[e.address.text, e.weight, e.options.text] for e in upstream.endpoints]
    scale = _SLOW_START_STEPS if upstream.slow_start else 1
    return {"pool": upstream.pool.text, "scale": scale, "servers": servers}


def _content(servers: Mapping[str, Any], shares: Mapping[str, int]) -> str:
    lines = (
        server_line(address, weight, options, percent=shares.get(address, _FULL_WEIGHT), scale=servers["scale"])
        for address, weight, options in servers["servers"]
    )
    return "".join(f"{line};\n" for line in lines)


def server_line(address: str, weight: int, options: str, *, percent: int = _FULL_WEIGHT, scale: int = 1) -> str:
    """A `server` directive without its semicolon, at `percent` of its weight."""
    share = 0 if not weight or not percent else max(1, weight * scale * percent // _FULL_WEIGHT)
    weighted = f" weight={share}" if share > 1 else ""
    return f"server {address}{weighted}{options}{'' if share else ' down'}"


def _endpoint(at: UpstreamPool, _: Endpoint) -> str:
    passive = at.pool.passive
    if passive is None:
        return " max_fails=0"
    return f" max_fails={passive.failures} fail_timeout={-(-passive.eject_for // 1000)}s"


PASSIVE_CHECKS = Contributor(endpoint=_endpoint)
