"""What commands on stacks return: the stack, its engines and endpoints, and what a swap cost."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import asdict

from lbgen.agent import acme_state
from lbgen.agent.acme_state import CertificateState
from lbgen.diagnostics import Diagnostic, Severity
from lbgen.engines.api import engine, engine_names
from lbgen.engines.verdicts import unknown_version
from lbgen.runtime import registry
from lbgen.runtime.common.driver import Result, no_progress
from lbgen.runtime.common.health import EndpointHealth
from lbgen.runtime.common.issued_certificates import store_folder
from lbgen.runtime.common.state import Address, EndpointState, EngineState
from lbgen.runtime.json_types import MemberRecord, StackRecord, SwapResult
from lbgen.runtime.tiers.group import GroupState


class Stack(Result, frozen=True):
    """A stack and what a command did with it. It keeps running after `up` returns; a `with` block takes it down at its
    end. `swapped`: what a swap cost."""

    swapped: SwapResult | None = None

    @classmethod
    def of(cls, result: Result, *warnings: Diagnostic) -> Self:
        """The stack of a driver's `result`, with `warnings` before those of the driver."""
        values = asdict(result)
        installed = engine_names()  # an engine may have come as an object
        known = [each for each in result.state.engines if each.name in installed]
        unknown = [w for each in known for w in unknown_version(engine(each.name), each.version)]
        return cls(**values | {"warnings": (*warnings, *result.warnings, *unknown)})

    def __repr__(self) -> str:
        engines = ", ".join(f"{each.name} {each.version}" for each in self.engines)
        return f"<Stack {self.name}, {'alive' if self.alive else 'ended'}: {engines or 'no engine'}>"

    @property
    def name(self) -> str:
        """The name of the stack."""
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
    def foreign_owner(self) -> str:
        """The other state directory that owns it, in words; "" = this one."""
        return self.state.foreign_owner

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
        if len(engines) < 2:
            return {name: engine.health for name, engine in engines.items()}

        with ThreadPoolExecutor(len(engines)) as side_by_side:
            found = side_by_side.map(lambda engine: engine.health, engines.values())
            return dict(zip(engines, found, strict=True))

    def down(self) -> None:
        """Stop everything of this stack; nothing happens when it is already down."""
        registry.remove_stack(self.state, no_progress)

    @property
    def certificates(self) -> tuple[CertificateState, ...]:
        """The certificates from ACME authorities that its agent keeps, read now."""
        members = self.state.group.members if isinstance(self.state, GroupState) and self.state.group else ()
        names = [x.of.name for x in members] or [self.name]
        return tuple(found for name in names for found in acme_state.read_fresh(store_folder(name)))

    @property
    def certificate_findings(self) -> tuple[Diagnostic, ...]:
        """LB435 (warnings) for certificates whose last order failed."""
        now = time.time()
        return tuple(
            Diagnostic("LB435", x.describe(now), field=f"listeners.{x.name}.tls.acme", severity=Severity.WARNING)
            for x in self.certificates
            if x.failure
        )

    def as_dict(self) -> StackRecord:
        """The JSON record: name, alive, engines, endpoints, skipped, warnings."""
        health = self.health()
        record: StackRecord = {
            "name": self.name,
            "runtime": self.state.runtime,
            "foreign_owner": self.foreign_owner,
            "alive": self.alive,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "reloaded": self.reloaded,
            "swapped": msgspec.to_builtins(self.swapped),
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
                    "metrics": x.metrics,
                    "urls": {a.listener: a.url for a in x.addresses},
                    "health": msgspec.to_builtins(health[x.name]),
                }
                for x in self.engines
            ],
            "endpoints": [{"name": x.name, "pool": x.pool, "host": x.host, "port": x.port} for x in self.endpoints],
            "certificates": [
                {
                    "name": x.name,
                    "domains": list(x.domains),
                    "issued": x.issued,
                    "expires": x.expires or None,
                    "renewal": x.renewal or None,
                    "failures": x.failures,
                    "failure": x.failure,
                    "retry": x.retry or None,
                }
                for x in self.certificates
            ],
            "skipped": {name: [each.as_dict() for each in reasons] for name, reasons in self.skipped},
            "warnings": [each.as_dict() for each in self.warnings],
        }
        if isinstance(self.state, GroupState):
            record["tiers"] = self._tiers()
        return record

    def _tiers(self) -> list[MemberRecord]:
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
