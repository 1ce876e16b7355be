"""Decide how a local stack takes a change. Nothing here starts, stops or signals anything: `up`, `reload` and `preview`
share it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.rendered import MANIFEST, Rendered, render_with
from lbgen.plan.model import Protocol as Transport
from lbgen.plan.overlay import with_admin, with_metrics, with_ports, with_real_endpoints, with_version
from lbgen.records import replace
from lbgen.runtime.common import ports
from lbgen.runtime.common.reload import obstacles, other_version, refusal
from lbgen.runtime.common.selection import judge_with_resolvers
from lbgen.runtime.local.run_as import engine_user
from lbgen.runtime.standins.plan import StandInSet, plan_stand_ins, stand_in_pools

if TYPE_CHECKING:
    from lbgen.engines.api import Binary, Engine, ProcessSpec
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.state import EngineState, StackState
    from lbgen.runtime.local.messages import EngineChoice, ReloadRequest, StartRequest

_LOOPBACK = "127.0.0.1"


class Served(Protocol):
    """An engine as it serves."""

    @property
    def title(self) -> str: ...
    @property
    def version(self) -> str:
        """For which its files are rendered."""
        ...

    @property
    def binary(self) -> Binary: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def spec(self) -> ProcessSpec: ...
    @property
    def directory(self) -> Path: ...


class SavedEngine(Struct, frozen=True):
    """An engine as the saved state of its stack describes it."""

    title: str
    version: str
    binary: Binary
    plan: Plan
    spec: ProcessSpec
    directory: Path


class EngineReload(Struct, frozen=True):
    """The plan that a running engine will serve, how it would be started on that, and its files."""

    plan: Plan
    spec: ProcessSpec
    rendered: Rendered


def is_up_to_date(before: StackState, digest: str) -> bool:
    """Whether the stack serves what has that digest."""
    return is_serving(before) and before.digest == digest


def is_serving(before: StackState) -> bool:
    """Whether its supervisor and all its engines run, so that it can be reloaded."""
    return before.committed and before.supervisor.alive() and all(x.running for x in before.engines)


def needs_supervisor(before: StackState) -> bool:
    """Whether its supervisor has ended and engines still serve, so that another one has to take over."""
    return before.committed and not before.supervisor.alive() and any(each.running for each in before.engines)


def accept_request(order: StartRequest, asked: ReloadRequest) -> tuple[Plan, tuple[EngineChoice, ...], tuple[str, ...]]:
    """The plan, the engines and the accepted verdicts of a stack of `order` after a reload.

    Raises LbgenError (verdicts), EngineError LB412 (other engines or versions, so that it needs a restart).
    """
    plan = asked.plan if order.backends else with_real_endpoints(asked.plan)
    if asked.programs not in (None, order.programs) or asked.backends not in (None, order.backends):
        raise EngineError(refusal("other engines, or other backends, run"))
    before = () if asked.programs is not None else order.accept
    accept = tuple(dict.fromkeys((*before, *asked.accept)))
    return plan, tuple(_same_choice(x, order.plan, plan, accept) for x in order.engines), accept


def _same_choice(chosen: EngineChoice, before: Plan, after: Plan, accept: tuple[str, ...]) -> EngineChoice:
    """The same engine for another plan. LbgenError (verdicts), EngineError LB412 for another version."""
    target = chosen.engine
    other = other_version(target, before, after, chosen.version)
    if other:
        raise EngineError(other)
    plan, problems = judge_with_resolvers(
        with_version(after, target.name, chosen.version), target, chosen.version, accept
    )
    if problems:
        raise LbgenError(problems)
    return replace(chosen, resolvers=plan.resolvers)


def assign_stand_ins(
    plan: Plan, engines: Sequence[EngineChoice], hosts: Sequence[str], before: StandInSet, folder: Path
) -> StandInSet:
    """A stand-in for each endpoint that has none, on loopback and on `hosts`; new certificates are made in `folder`."""
    if not stand_in_pools(plan):
        return StandInSet()
    taken = frozenset(x.port + engine.offset for x in plan.listeners for engine in engines)
    return plan_stand_ins(plan, (_LOOPBACK, *hosts), taken, folder, before=before)


def plan_for(plan: Plan, chosen: EngineChoice, stand_ins: StandInSet, host: str | None) -> Plan:
    """The plan that an engine of the stack gets to serve `plan`: offset ports, stand-ins as endpoints. `host`: this
    host's address, of an engine in a network namespace."""
    plan = replace(plan, resolvers=chosen.resolvers)
    plan = with_ports(plan, {x.name: x.port + chosen.offset for x in plan.listeners})
    plan = with_metrics(plan, offset=chosen.offset)
    plan = stand_ins.apply_to(plan, host or _LOOPBACK)
    if host is not None:  # the namespace does not have the listeners' addresses
        everywhere = "0.0.0.0"  # noqa: S104 - inside a namespace that only this host reaches
        plan = replace(plan, listeners=tuple(replace(x, address=everywhere) for x in plan.listeners))
    return plan


def saved_engine(
    plan: Plan, chosen: EngineChoice, stand_ins: StandInSet, host: str | None, entry: EngineState, binary: Binary
) -> SavedEngine:
    """The engine that serves `plan` by the saved state, with `entry` of the record."""
    plan = with_version(plan_for(plan, chosen, stand_ins, host), chosen.name, chosen.version)
    if entry.admin:
        plan = with_admin(plan, entry.admin, shared=True)
    directory = Path(entry.directory)
    spec = chosen.engine.process(plan, binary, directory)
    return SavedEngine(chosen.title, chosen.version, binary, plan, spec, directory)


def engine_reload(served: Served, target: Engine, plan: Plan, accept: tuple[str, ...]) -> EngineReload:
    """How a running engine serves `plan` instead. Raises LbgenError (verdicts), EngineError LB412 (needs a restart)."""
    plan = with_version(plan, target.name, served.version)
    if served.plan.admin_port is not None:
        plan = with_admin(plan, served.plan.admin_port, shared=served.plan.admin_shared)
    rendered = render_with(target, plan, served.version, accept)
    spec = replace(target.process(plan, served.binary, served.directory), ready=served.spec.ready)
    found = obstacles(served.title, (served.plan, served.spec, _texts(served, rendered)), (plan, spec, dict(rendered)))
    if found:
        raise EngineError(found)
    return EngineReload(plan, spec, rendered)


def claim_new_ports(served: Served, plan: Plan) -> None:
    """Raise EngineError LB404 where `plan` listens on a port of this host that `served` does not have and another
    process has. Hold the lock `ports`: each port is taken for a moment."""
    here = {(x.address, x.port, x.protocol) for x in served.plan.listeners}
    for listener in plan.listeners:
        new = (listener.address, listener.port, listener.protocol) not in here
        if new and listener.protocol is Transport.TCP:
            field = f"{listener.field}.port"
            ports.claim(listener.address, listener.port, field, privileged=engine_user().uid is not None)


def _texts(served: Served, rendered: Rendered) -> dict[str, str]:
    """The texts of the rendered files in the engine's folder, by name."""
    names = [*manifest(served.directory), *rendered]
    paths = {name: served.directory / PurePosixPath(name) for name in names}
    copies = {copy.path for copy in (*rendered.copies, *served.plan.files)}
    return {
        name: path.read_text(encoding="utf-8", errors="replace")
        for name, path in paths.items()
        if name not in copies and path.is_file()
    }


def manifest(directory: Path) -> list[str]:
    """The names of the rendered files in an engine's folder."""
    path = directory / MANIFEST
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def changed_files(directory: Path, rendered: Rendered) -> list[str]:
    """The names of files that `rendered` writes otherwise than they are in the folder, or removes; and those elsewhere
    that are younger than the folder's."""
    new = {name: text.encode() for name, text in rendered.items()}
    new |= {copy.path: copy.content() for copy in rendered.copies if copy.source is not None}
    found = [name for name in dict.fromkeys((*manifest(directory), *new)) if new.get(name) != _bytes(directory, name)]
    written = _changed_at(directory / MANIFEST)
    return [*found, *(x.path for x in rendered.copies if x.source is None and _changed_at(Path(x.path)) >= written)]


def _changed_at(path: Path) -> int:
    """When it was changed last, in ns; 0 where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _bytes(folder: Path, name: str) -> bytes | None:
    path = folder / PurePosixPath(name)
    return path.read_bytes() if path.is_file() else None
