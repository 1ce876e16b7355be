"""What commands on stacks return: the stack, its engines and endpoints, and what a swap cost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Self

from lbgen.runtime import registry
from lbgen.runtime.common.driver import Result
from lbgen.runtime.tiers.group import GroupState

if TYPE_CHECKING:
    from types import TracebackType

    from lbgen.diagnostics import Diagnostic
    from lbgen.runtime.common.health import EndpointHealth
    from lbgen.runtime.common.state import Address, EndpointState, EngineState


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What clients of our own saw while engine `after` took the place of `before`: `requests` of them that `failed`
    (`first` says how), the longest time in which new connections failed, and `dropped` of `sockets` (WebSockets, TCP
    streams) that they held open. `cut`: connections of `before` that were still open when its time was over.
    `verified` says what was compared first."""

    before: str
    after: str
    requests: int
    failed: int
    first: str
    gap_ms: int
    sockets: int
    dropped: int
    cut: int
    verified: str = ""


@dataclass(frozen=True, slots=True)
class Stack(Result):
    """A stack and what a command did with it. It keeps running after `up` returns; a `with` block takes it down at its
    end. `swapped`: what a swap cost."""

    swapped: SwapResult | None = None

    @classmethod
    def of(cls, result: Result, *warnings: Diagnostic) -> Self:
        """The stack of a driver's `result`, with `warnings` before those of the driver."""
        values = {each.name: getattr(result, each.name) for each in fields(result)}
        return cls(**values | {"warnings": (*warnings, *result.warnings)})

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def engines(self) -> tuple[EngineState, ...]:
        """Name, version, executable, pid, addresses, log and whether it runs, for each engine."""
        return self.state.engines

    @property
    def endpoints(self) -> tuple[EndpointState, ...]:
        """The stand-ins; empty without."""
        return self.state.endpoints

    @property
    def alive(self) -> bool:
        """Whether its supervisor (or one of its containers) lives. If not, `down` clears what is left."""
        return self.state.alive

    @property
    def urls(self) -> dict[str, dict[str, str]]:
        """Engine -> listener -> URL (http or https for L7, tcp or udp for L4)."""
        return {engine.name: {a.listener: a.url for a in engine.addresses} for engine in self.engines}

    def address(self, listener: str, engine: str | None = None) -> Address:
        """Where `listener` is reached on `engine` (default: the first). KeyError when there is no such one."""
        for each in self.engines:
            if engine in (None, each.name):
                for address in each.addresses:
                    if address.listener == listener:
                        return address
        raise KeyError(listener if engine is None else f"{listener} on {engine}")

    def url(self, listener: str, engine: str | None = None) -> str:
        """The URL of `listener` on `engine` (default: the first). KeyError when there is no such one."""
        return self.address(listener, engine).url

    def health(self) -> dict[str, tuple[EndpointHealth, ...]]:
        """How each engine finds the endpoints of its pools, by its name; they are asked now, side by side."""
        engines = {engine.name: engine for engine in self.engines}
        if isinstance(self.state, GroupState):
            engines = {part: engine for part, stack in self.state.parts for engine in stack.engines}
        with ThreadPoolExecutor(max(len(engines), 1)) as side_by_side:
            found = side_by_side.map(lambda engine: engine.health, engines.values())
            return dict(zip(engines, found, strict=True))

    def down(self) -> None:
        """Stop everything of this stack; nothing happens when it is already down."""
        registry.remove_stack(self.state, registry.no_progress)

    def as_dict(self) -> dict[str, object]:
        """The JSON record: name, alive, engines, endpoints, skipped, warnings."""
        health = self.health()
        return {
            "name": self.name,
            "runtime": self.state.runtime,
            "alive": self.alive,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "reloaded": self.reloaded,
            "swapped": None if self.swapped is None else asdict(self.swapped),
            "engines": [
                {
                    "name": x.name,
                    "version": x.version,
                    "binary": x.binary,
                    "pid": x.pid,
                    "running": x.running,
                    "ended": x.ended,
                    "restarts": x.restarts,
                    "died": x.died,
                    "log": str(x.log),
                    "urls": {a.listener: a.url for a in x.addresses},
                    "health": [asdict(each) for each in health[x.name]],
                }
                for x in self.engines
            ],
            **({"tiers": self._tiers()} if isinstance(self.state, GroupState) else {}),
            "endpoints": [{"name": x.name, "pool": x.pool, "host": x.host, "port": x.port} for x in self.endpoints],
            "skipped": {name: [each.as_dict() for each in reasons] for name, reasons in self.skipped},
            "warnings": [each.as_dict() for each in self.warnings],
        }

    def _tiers(self) -> list[dict[str, object]]:
        """The members of a stack that has tiers."""
        found = self.state.group.members if isinstance(self.state, GroupState) and self.state.group is not None else ()
        return [
            {"name": x.of.part, "tier": x.tier, "replica": x.replica, "engine": x.engine, "stack": x.of.name}
            for x in found
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
