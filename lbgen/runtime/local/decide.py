"""Decide how a local stack takes a change. Nothing here starts, stops or signals anything: `up`, `reload` and `preview`
share it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.engines.api import Binary, Engine, ProcessSpec, engine, engine_names
from lbgen.engines.rendered import MANIFEST, Rendered, render_with
from lbgen.plan.model import Plan
from lbgen.plan.model import Protocol as Transport
from lbgen.plan.overlay import (
    with_admin,
    with_challenge_port,
    with_metrics,
    with_ports,
    with_real_endpoints,
    with_version,
)
from lbgen.runtime.common import ports, selection, state
from lbgen.runtime.common.driver import RELOAD_SECONDS, UpOptions
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.issued_certificates import with_store
from lbgen.runtime.common.reload import obstacles, other_version, refusal
from lbgen.runtime.common.selection import Skipped, ensure_kernel, for_routes, judge_with_resolvers
from lbgen.runtime.common.state import EngineState, StackState
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import EngineChoice, ReloadRequest, StartRequest
from lbgen.runtime.local.spawn import engine_user
from lbgen.runtime.standins.plan import StandInSet, plan_stand_ins, stand_in_pools

_LOOPBACK = "127.0.0.1"


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


def reload_request(wanted: StartRequest) -> ReloadRequest:
    """The reload by which `up` changes a stack that runs."""
    seconds = for_routes(wanted.plan, RELOAD_SECONDS)
    return ReloadRequest(wanted.plan, wanted.accept, seconds, wanted.programs, wanted.backends)


def request_for(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> tuple[StartRequest, Skipped]:
    """What `up` asks for: the plan with the endpoints to forward to, and the engines that will run, without offsets;
    and the skipped engines."""
    backends, accept = options.backends, options.accept
    plan = with_certificates(plan if backends else with_real_endpoints(plan))
    chosen, skipped = choose(plan, engines, insist=options.insist, accept=accept, named=selection.configured(plan))
    folder = str(state.folder(plan.name))
    return StartRequest(plan.name, folder, plan, chosen, accept, backends, options.seconds), skipped


def with_certificates(plan: Plan) -> Plan:
    """`plan` with its certificates from ACME authorities. Raises EngineError LB402, LB408; see `with_store`."""
    user = engine_user()
    return with_store(plan, (user.uid, user.gid))


def choose(
    plan: Plan,
    engines: Sequence[Engine],
    *,
    insist: bool,
    accept: tuple[str, ...],
    named: Collection[str] = (),
    endpoint_rules: bool = False,
) -> tuple[tuple[EngineChoice, ...], Skipped]:
    """The engines that will run, and the skipped ones with reasons. See `selection.choose`. `endpoint_rules`: the
    caller loads the rules that an engine needs where endpoints are."""

    def decide(target: Engine) -> EngineChoice:
        return _choose(plan, target, accept=accept, endpoint_rules=endpoint_rules)

    return selection.choose(engines, decide, insist=insist, named=named)


def _choose(plan: Plan, target: Engine, *, accept: tuple[str, ...], endpoint_rules: bool) -> EngineChoice:
    asked = plan.options(target.name).version
    binary, version = None, asked
    try:
        binary, version = find(target, asked)
    except EngineError:
        # A refusal comes before a missing executable.
        _, problems = judge_with_resolvers(plan, target, target.versions[0], accept)
        if problems:
            raise LbgenError(problems) from None
        raise
    plan, problems = judge_with_resolvers(with_version(plan, target.name, version), target, version, accept)
    if problems:
        raise LbgenError(problems)
    spec = target.process(plan, binary, Path("/"))
    ensure_kernel(target)
    if spec.endpoint_rules and not endpoint_rules:
        message = f"{target.title} needs rules on the hosts of its endpoints, and here all endpoints are on this host"
        hint = "`--runtime docker` loads them into the endpoints' containers, `lbgen render` writes them for machines"
        raise EngineError(Diagnostic("LB403", message, hint=f"{hint}; or name other engines with -e"))
    kernel = spec.kernel
    if kernel and os.geteuid() != 0:
        hint = "run as root, or leave it out"
        raise EngineError(Diagnostic("LB407", f"{target.title} needs root to load rules into the kernel", hint=hint))
    if kernel and len(stand_in_pools(plan)) < len(plan.pools):
        message = f"{target.title} runs in a network namespace from which only stand-ins can be reached"
        raise EngineError(Diagnostic("LB403", message, hint="load the rendered file on the balancer itself"))
    supplied = None if _installed(target) else target
    return EngineChoice(target.name, target.title, version, binary, kernel, plan.resolvers, supplied=supplied)


def _installed(target: Engine) -> bool:
    return target.name in engine_names() and engine(target.name) is target


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
    plan = with_challenge_port(with_metrics(plan, offset=chosen.offset), offset=chosen.offset)
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


def engine_reload(
    served: EngineProcess | SavedEngine, target: Engine, plan: Plan, accept: tuple[str, ...]
) -> EngineReload:
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


def claim_new_ports(served: EngineProcess | SavedEngine, plan: Plan) -> None:
    """Raise EngineError LB404 where `plan` listens on a port of this host that `served` does not have and another
    process has. Hold the lock `ports`: each port is taken for a moment."""
    here = {(x.address, x.port, x.protocol) for x in served.plan.listeners}
    for listener in plan.listeners:
        new = (listener.address, listener.port, listener.protocol) not in here
        if new and listener.protocol is Transport.TCP:
            field = f"{listener.field}.port"
            ports.claim(listener.address, listener.port, field, privileged=engine_user().uid is not None)


def _texts(served: EngineProcess | SavedEngine, rendered: Rendered) -> dict[str, str]:
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
    new |= {copy.path: copy.content() for copy in rendered.copies if copy.is_copied}
    found = [name for name in dict.fromkeys((*manifest(directory), *new)) if new.get(name) != _bytes(directory, name)]
    written = _changed_at(directory / MANIFEST)
    return [*found, *(x.path for x in rendered.copies if not x.is_copied and _changed_at(Path(x.path)) >= written)]


def _changed_at(path: Path) -> int:
    """When it was changed last, in ns; 0 where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _bytes(folder: Path, name: str) -> bytes | None:
    path = folder / PurePosixPath(name)
    return path.read_bytes() if path.is_file() else None
