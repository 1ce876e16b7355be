"""What an engine without health checks of its own tells `lbgen agent`: whom to check, how, and what to steer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from lbgen.engines.api import RenderedFile
from lbgen.plan.model import Pool, PoolProtocol
from lbgen.plan.policy import ActiveHealth

FILE = "agent.json"
FORMAT = 1


class Target(Struct, frozen=True):
    """An endpoint. `name` is `host:port` as in the topology, `port` the one that is checked. `weight` 0: drained."""

    name: str
    host: str
    port: int
    weight: int


class CheckTls(Struct, frozen=True):
    """Paths are relative to the folder of the file, or absolute; `ca` None = the system's store."""

    ca: str | None
    server_name: str | None
    certificate: str | None
    key: str | None
    verify: bool


class CheckedPool(Struct, frozen=True):
    """A pool and how its endpoints are checked. Times in milliseconds; `path` None = a connection is enough; `source`
    is the address to check from, "" = the kernel's choice."""

    name: str
    path: str | None
    statuses: tuple[tuple[int, int], ...]
    interval: int
    timeout: int
    fall: int
    rise: int
    slow_start: int
    http2: bool
    proxy_protocol: str | None
    tls: CheckTls | None
    targets: tuple[Target, ...]
    source: str = ""


class BalancedEndpoint(Struct, frozen=True):
    """`name` is `host:port` as in the topology; `host` an address in its shortest form."""

    name: str
    host: str
    port: int
    weight: int
    backup: bool = False


class BalancedPool(Struct, frozen=True):
    """A pool whose connections the agent counts in the kernel's table: for shares that follow them (`least`), and to
    leave out endpoints that have `most`, None = any number."""

    name: str
    endpoints: tuple[BalancedEndpoint, ...]
    least: bool = True
    most: int | None = None


class AgentSpec(Struct, frozen=True):
    """The whole order. `reload` is the signal (SIGHUP) for the process whose pid is in `pid_file` (relative to the
    folder) and whose name is `program`; "" for an engine that looks at its files itself. `command`, if any, is run in
    the folder instead, with the agent's rights; `change` too, for what an `Incremental` engine changes. `steering` is
    the engine's own: what `Steered.set_weights` needs. `tracked`: the kernel keeps a UDP flow at its endpoint, so that
    the flows of an endpoint that is down or gone have to be ended."""

    engine: str
    program: str
    pid_file: str
    reload: str
    pools: tuple[CheckedPool, ...]
    steering: dict[str, Any]
    command: tuple[str, ...] = ()
    balanced: tuple[BalancedPool, ...] = ()
    change: tuple[str, ...] = ()
    tracked: bool = False
    format: int = FORMAT

    def file(self) -> RenderedFile:
        """As it is written beside the engine's other files."""
        return RenderedFile(FILE, json.dumps(msgspec.to_builtins(self), indent=1) + "\n")


@runtime_checkable
class Steered(Protocol):
    """An engine that the agent steers by files; beside `lbgen.engines.api.Engine`."""

    def set_weights(self, steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
        """Files (name -> text) for these shares: pool -> endpoint's name -> percent of its weight, 0 = down.

        What `shares` does not name has its full share.
        """
        ...


def checked_pools(pools: Iterable[Pool]) -> tuple[CheckedPool, ...]:
    """Those of `pools` that have active checks. An address that a pool has twice is checked once."""
    return tuple(_checked(pool, pool.active) for pool in pools if pool.active is not None)


def _checked(pool: Pool, active: ActiveHealth) -> CheckedPool:
    targets = {e.authority: Target(e.authority, e.host, active.port or e.port, e.weight) for e in pool.endpoints}
    tls = None
    if pool.tls is not None:
        shown = pool.tls.certificate
        ca = None if pool.tls.ca is None else pool.tls.ca.path
        cert, key = (None, None) if shown is None else (shown.cert.path, shown.key.path)
        tls = CheckTls(ca, pool.tls.server_name, cert, key, pool.tls.verify)
    return CheckedPool(
        name=pool.name,
        path=active.path,
        statuses=active.statuses,
        interval=active.interval,
        timeout=active.timeout,
        fall=active.fall,
        rise=active.rise,
        slow_start=pool.slow_start,
        http2=pool.protocol is not PoolProtocol.HTTP1,
        proxy_protocol=pool.proxy_protocol,
        tls=tls,
        targets=tuple(targets.values()),
    )
