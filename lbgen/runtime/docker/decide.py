"""Decide how a stack of containers takes a change, and preview what `up` or `reload` would do; nothing that runs is
touched.

No image is pulled or built, no checker runs, and a network namespace is not tried for nft rules.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity
from lbgen.engines.api import Engine, target_version
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.verdicts import judge
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_version
from lbgen.runtime.common import selection
from lbgen.runtime.common.driver import Action, Decision, PartChange, PartKind, ReloadOptions, UpOptions
from lbgen.runtime.common.issued_certificates import with_store
from lbgen.runtime.common.reload import other_version, refusal
from lbgen.runtime.common.selection import ensure_kernel
from lbgen.runtime.common.state import StackState
from lbgen.runtime.docker import external_networks, images, labels, network
from lbgen.runtime.docker.client import connect
from lbgen.runtime.docker.converge import ASIDE, StackContainer, exchanges, list_containers
from lbgen.runtime.docker.desired import RESOLVER, DesiredStack, EngineChoice, desired_stack, published_address
from lbgen.runtime.docker.helper_image import USER
from lbgen.runtime.docker.labels import Record, Role, SavedPlan
from lbgen.runtime.docker.reload import find_extendable, needs_reload, plan_reload
from lbgen.runtime.docker.rolling_replace import find_entrypoints, on_other_side

if TYPE_CHECKING:
    from docker import DockerClient

_KINDS = {Role.ENGINE: PartKind.ENGINE, Role.ENDPOINTS: PartKind.STAND_INS, Role.AGENT: PartKind.AGENT}


Choose = Callable[[Engine, str], images.Image]  # of an engine and version


def accept_reload(
    client: DockerClient,
    there: Sequence[StackContainer],
    last: SavedPlan | None,
    plan: Plan,
    options: ReloadOptions,
    choose: Choose,
    *,
    connect_endpoints: bool = True,
) -> tuple[Plan, tuple[EngineChoice, ...], tuple[str, ...], SavedPlan]:
    """The plan, the engines, the accepted verdicts of the stack `there` after a reload, and what the last change saved.
    `connect_endpoints`: see `external_networks.attach_endpoints`.

    Raises LbgenError (verdicts), EngineError LB412 (it needs a new start).
    """
    if last is None:
        raise EngineError(refusal(f"another user, or another lbgen, made the containers of {plan.name}"))
    plan = with_store(external_networks.resolve_endpoints(client, plan, backends=last.backends), (USER, USER))
    accept = tuple(dict.fromkeys((*last.accept, *options.accept)))
    engines = [each for each in there if each.record.role is Role.ENGINE]
    if selection.configured(plan) & {each.record.engine for each in engines}:
        plan = external_networks.attach_endpoints(client, plan, connect=connect_endpoints)
    return plan, tuple(_same_choice(each, last.plan, plan, accept, choose) for each in engines), accept, last


def _same_choice(
    there: StackContainer, before: Plan, after: Plan, accept: tuple[str, ...], choose: Choose
) -> EngineChoice:
    """The same engine for another plan. LbgenError (verdicts), EngineError LB412 for another version."""
    target = engine_by_name(there.record.engine)
    other = other_version(target, before, after, there.record.version)
    if other:
        raise EngineError(other)
    after = with_version(after, target.name, there.record.version)
    return replace(choose_image(after, target, accept, choose), offset=there.record.offset, side=there.record.side)


def certificate_folder(plan: Plan) -> Path:
    """The folder of the stand-ins' certificates; it depends on the pools."""
    asked = repr([(pool.name, pool.tls) for pool in plan.pools])
    return labels.saved_folder(plan.name) / hashlib.sha256(asked.encode()).hexdigest()[:16]


def choose_image(plan: Plan, target: Engine, accept: tuple[str, ...], choose: Choose) -> EngineChoice:
    """The engine in the version that `plan` asks for, with the image that `choose` finds. Raises LbgenError (verdicts)
    and what `choose` raises."""
    version = target_version(target, plan.options(target.name).version)
    named = replace(with_version(plan, target.name, version), resolvers=plan.resolvers or (RESOLVER,))
    _, problems = judge(named, target, version, accept)
    if problems:
        raise LbgenError(problems)
    ensure_kernel(target)
    return EngineChoice(target, version, choose(target, version))


def assign_offsets(
    plan: Plan, chosen: tuple[EngineChoice, ...], before: tuple[StackContainer, ...], instead: Mapping[str, str]
) -> tuple[EngineChoice, ...]:
    """Give each engine a port offset; one that runs keeps its own."""
    had = {x.record.engine: x.record.offset for x in before if x.record.role is Role.ENGINE}
    had |= {new: had[old] for new, old in instead.items() if old in had}
    ours = {a.port for x in before if x.running for a in x.record.addresses}
    ours |= {x.record.metrics_port for x in before if x.running}
    names = [(each.engine.name, each.engine.title) for each in chosen]
    found = selection.offsets(plan, names, had, ours, published_address)
    sides = {x.record.offset: x.record.side for x in before if x.record.role is Role.PORTS and x.running}
    placed = (replace(each, offset=found[each.engine.name]) for each in chosen)
    return tuple(replace(each, side=sides.get(each.offset, 0)) for each in placed)


def choose_engines(
    client: DockerClient,
    plan: Plan,
    engines: Sequence[Engine],
    options: UpOptions,
    before: tuple[StackContainer, ...],
    choose: Choose,
    instead: Mapping[str, str],
    *,
    connect_endpoints: bool = True,
) -> tuple[Plan, tuple[EngineChoice, ...], selection.Skipped]:
    """The plan with the endpoints to forward to, the engines that will run, with offsets, and the skipped ones.
    `before` and `instead` as in `assign_offsets`, `connect_endpoints` as in `accept_reload`.

    Raises LbgenError (verdicts), EngineError LB404, LB421, LB423 and what `choose` raises.
    """
    plan = with_store(external_networks.resolve_endpoints(client, plan, backends=options.backends), (USER, USER))
    named = selection.configured(plan)
    if named & {each.name for each in engines}:
        plan = external_networks.attach_endpoints(client, plan, connect=connect_endpoints)

    def decide(target: Engine) -> EngineChoice:
        return choose_image(plan, target, options.accept, choose)

    chosen, skipped = selection.choose(engines, decide, insist=options.insist, named=named)
    return plan, assign_offsets(plan, chosen, before, instead), skipped


def preview_up(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Decision:
    """What `stack.up` would do. Raises as it does while it decides: LbgenError (verdicts), EngineError LB404, LB420,
    LB421, LB423."""
    client = connect()
    before, last = list_containers(client, plan.name), labels.read_saved_plan(plan.name)
    choose = partial(images.look_up, client)
    plan, chosen, skipped = choose_engines(client, plan, engines, options, before, choose, {}, connect_endpoints=False)
    with tempfile.TemporaryDirectory() as place:

        def make(chosen: Sequence[EngineChoice]) -> DesiredStack:
            return _desired(client, plan, chosen, options.accept, options.backends, last, Path(place))

        desired = make(chosen)
        parts, why = None, ""
        if needs_reload(desired, before):
            try:
                parts = _reloaded_parts(desired, before)
            except EngineError as error:
                if any(each.code != "LB412" for each in error.diagnostics):
                    raise
                why = "; ".join(each.message for each in error.diagnostics)
        if parts is None:
            switched = find_entrypoints(desired, before)
            desired = make(on_other_side(desired, switched))
            parts = _parts(desired, before, frozenset(), frozenset(switched), why)
    return Decision(parts, last.plan if last is not None and before else None, plan, skipped, _unfinished(before))


def preview_reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Decision:
    """What `stack.reload` would do. Raises as it does while it decides: LbgenError (verdicts), EngineError LB412,
    LB420, LB421, LB423."""
    client = connect()
    before = list_containers(client, stack.name)
    plan, chosen, accept, last = accept_reload(
        client,
        before,
        labels.read_saved_plan(stack.name),
        plan,
        options,
        partial(images.look_up, client),
        connect_endpoints=False,
    )
    with tempfile.TemporaryDirectory() as place:
        desired = _desired(client, plan, chosen, accept, last.backends, last, Path(place))
        parts = _reloaded_parts(desired, before)
    return Decision(parts, last.plan, plan, (), _unfinished(before))


def _desired(
    client: DockerClient,
    plan: Plan,
    chosen: Sequence[EngineChoice],
    accept: tuple[str, ...],
    backends: bool,
    last: SavedPlan | None,
    place: Path,
) -> DesiredStack:
    """The desired stack; certificates that stand-ins lack are made below `place`."""
    folder = certificate_folder(plan)
    if not folder.is_dir():
        folder = place / folder.name  # the name is part of what stand-ins are compared by
    subnet = network.find(client, plan.name) or next(network.ADDRESSES.subnets(new_prefix=24))
    return desired_stack(plan, chosen, accept, backends, (images.helper_reference(), subnet, folder), last)


def _reloaded_parts(desired: DesiredStack, before: Sequence[StackContainer]) -> tuple[PartChange, ...]:
    """What a reload does to each part; agents converge after it. EngineError LB412 when other containers are needed."""
    units, _ = plan_reload(desired, before)
    return _parts(desired, before, frozenset(unit.container_spec.name for unit in units), frozenset(), "")


def _parts(
    desired: DesiredStack,
    before: Sequence[StackContainer],
    reloaded: frozenset[str],
    switched: frozenset[str],
    why: str,
) -> tuple[PartChange, ...]:
    """What happens to each container, and why not less. `reloaded` serve other files as they are, `switched` have a
    traffic switch."""
    extended = find_extendable(desired, before)
    records = {spec.name: record for spec, record in desired.containers}
    kept = reloaded | ({extended.name} if extended is not None else set())
    there = {each.name: replace(each, record=records[each.name]) if each.name in kept else each for each in before}
    gone, remade = exchanges(there, desired.containers)
    had = desired.last.stand_in_set.stand_ins if desired.last is not None else ()
    more = len(desired.kept.stand_in_set.stand_ins) - len(had)
    moved = [now for _, record, now in remade.values() if record.role is Role.PORTS and now is not None]
    why = why or ("its published ports change" if moved else "")
    found = []
    for name, record in records.items():
        if record.role not in _KINDS:
            continue
        action, reason = Action.NONE, ""
        if name in remade:
            action = _exchange(record, remade[name][2], name in switched)
            reason = why if action in (Action.REPLACE, Action.INTERRUPT) and record.role is Role.ENGINE else ""
        elif name in kept:
            action, reason = Action.RELOAD, "" if name in reloaded else f"{more} more"
        found.append(PartChange(_KINDS[record.role], record.engine, action, reason))
    removed = [x for x in gone if x.record.role in _KINDS and not x.name.endswith(ASIDE)]
    return *found, *(PartChange(_KINDS[x.record.role], x.record.engine, Action.REMOVE) for x in removed)


def _exchange(record: Record, now: StackContainer | None, switched: bool) -> Action:
    if now is None or not now.running:
        return Action.CREATE
    return Action.REPLACE if switched or record.role is Role.AGENT else Action.INTERRUPT


def _unfinished(before: Sequence[StackContainer]) -> tuple[Diagnostic, ...]:
    """LB429 where an `up` that was killed has left two engines."""
    if not any(each.name.endswith(ASIDE) for each in before):
        return ()
    message = "an `up` was killed while it replaced an engine; the next one takes that back first"
    hint = "this preview does not count that; `lbgen up` finishes it"
    return (Diagnostic("LB429", message, hint=hint, severity=Severity.WARNING),)
