"""The docker runtime: stacks of containers. See `common.driver.Driver`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, without_errors
from lbgen.engines.api import Engine, target_version
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.verdicts import judge
from lbgen.plan.model import Mode, Plan
from lbgen.plan.overlay import with_version
from lbgen.records import replace
from lbgen.runtime.common import readiness, selection
from lbgen.runtime.common.driver import RELOAD_SECONDS, Progress, ReloadOptions, Result, Step, UpOptions
from lbgen.runtime.common.ports import connections as connections
from lbgen.runtime.common.reload import other_version, refusal
from lbgen.runtime.common.selection import ensure_kernel, for_routes
from lbgen.runtime.common.signals import defer_signals
from lbgen.runtime.common.state import lock
from lbgen.runtime.docker import (
    container_engine,
    endpoint_rules,
    external_networks,
    images,
    labels,
    network,
    traffic_switch,
)
from lbgen.runtime.docker.client import connect
from lbgen.runtime.docker.container import PortTakenError
from lbgen.runtime.docker.container_engine import ensure_alive, restart_count, wait_for_agent
from lbgen.runtime.docker.converge import Converger, StackContainer, forget_stack, list_containers, remove_stack
from lbgen.runtime.docker.desired import RESOLVER, DesiredStack, EngineChoice, desired_stack, published_address
from lbgen.runtime.docker.external_networks import attach_networks as attach_networks
from lbgen.runtime.docker.external_networks import listener_addresses as listener_addresses
from lbgen.runtime.docker.external_networks import plan_behind_front as plan_behind_front
from lbgen.runtime.docker.inspect import lines as lines
from lbgen.runtime.docker.inspect import running as running
from lbgen.runtime.docker.inspect import stack_state
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.network import wait_listening
from lbgen.runtime.docker.reload import add_stand_ins, after_commit, check_replacements, needs_reload, reload_containers
from lbgen.runtime.docker.rolling_replace import Replacement, prepare_replacement, recover
from lbgen.runtime.standins.plan import describe_pools

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.common.state import StackState
    from lbgen.runtime.docker.labels import SavedPlan


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop and remove all containers, volumes and the network of a stack; a Ctrl-C skips the drain."""
    client = connect()
    with lock(f"docker-{stack.name}"):
        try:
            side = endpoint_rules.read(list_containers(client, stack.name, labels_only=True))
            remove_stack(client, stack.name, progress)
            if side is not None:
                endpoint_rules.unload(client, side)
        except BaseException:
            with defer_signals(forget=True), suppress(EngineError):
                forget_stack(client, stack.name)
            raise
        with defer_signals():
            forget_stack(client, stack.name)


def up(plan: Plan, engines: Sequence[Engine], options: UpOptions, instead: Mapping[str, str] | None = None) -> Result:
    """Bring `plan` up on `engines` in containers. An engine that runs is reloaded where possible; else its container is
    replaced, without a gap unless its published ports change, and open connections have `drain` seconds to end.
    `instead`: new engine -> the engine whose ports it gets. A failure leaves everything as it was.

    Raises LbgenError (verdicts), EngineError LB403 to LB405, LB413, LB420 to LB423.
    """
    backends, accept, progress = options.backends, options.accept, options.progress
    client = connect(here=True)
    with lock(f"docker-{plan.name}"), _cleanup_on_error(client, plan.name):
        plan = external_networks.resolve_endpoints(client, plan, backends=backends)
        if selection.configured(plan) & {each.name for each in engines}:
            plan = external_networks.attach_endpoints(client, plan)
        helper = partial(_helper, client, progress)
        before = recover(client, plan.name, list_containers(client, plan.name), helper)
        choose = partial(_pull_image, client, progress)
        chosen, skipped = selection.choose(
            engines,
            lambda target: choose_image(plan, target, accept, choose),
            insist=options.insist,
            named=selection.configured(plan),
        )
        chosen = assign_offsets(plan, chosen, before, instead or {})

        def make(chosen: Sequence[EngineChoice]) -> DesiredStack:
            return _desired_stack(client, plan, chosen, accept, backends, progress)

        if plan.pools:
            progress(Progress(Step.POOLS, detail=describe_pools(plan)))
        desired = make(chosen)
        side = endpoint_rules.read(before)
        endpoint_rules.ensure_possible(client, desired.endpoint_side, network.stand_in_address(desired.subnet))
        try:
            if needs_reload(desired, before):
                warnings = reload_containers(client, desired, before, progress, for_routes(plan, RELOAD_SECONDS))
                return Result(
                    stack_state(plan.name, list_containers(client, plan.name)), skipped, warnings, reloaded=True
                )
        except EngineError as error:
            if any(each.code != "LB412" for each in error.diagnostics):
                raise
        check_replacements(client, desired, before, progress)
        add_stand_ins(desired, before)
        with prepare_replacement(client, desired, before, make, progress) as replacement:
            desired = replacement.stack
            work = Converger(
                client, plan.name, network.name(plan.name), progress, replacement.alongside, replacement.tools
            )
            try:
                with _name_port_field(plan, chosen):
                    work.converge(desired.containers)
                if work.changed and plan.networks:
                    traffic_switch.route_joined_networks(client, plan.name, list_containers(client, plan.name), helper)
                with endpoint_rules.loaded(client, side, desired.endpoint_side, anew=work.changed):
                    warnings = (
                        *_wait_for_routes(client, replacement, options),
                        *(external_networks.missed_containers(client, plan) if backends else ()),
                    )
                    for each in replacement.switches.values():
                        each.switch()
                    desired.kept.write()
            except BaseException:  # also Ctrl-C
                with defer_signals(forget=True):
                    replacement.rollback(client, plan.name)
                    work.rollback()
                raise
            try:
                cut = replacement.drain(options.drain, progress)
            finally:
                with defer_signals(), after_commit():
                    work.commit()
        now = stack_state(plan.name, list_containers(client, plan.name))
        return Result(now, skipped, warnings, not work.changed, bool(before) and work.changed, cut=cut)


@contextmanager
def _name_port_field(plan: Plan, chosen: Sequence[EngineChoice]) -> Iterator[None]:
    """Add the listener's field to a LB404 of a port that is in use."""
    try:
        yield
    except PortTakenError as error:
        asked = {(x.port + each.offset, str(x.protocol)): x.field for each in chosen for x in plan.listeners}
        if plan.metrics is not None:
            asked |= {(plan.metrics.port + each.offset, "tcp"): "metrics" for each in chosen}
        field = asked.get((error.port, error.protocol))
        raise EngineError(
            [replace(x, field=f"{field}.{error.key}" if field else "") for x in error.diagnostics]
        ) from error


@contextmanager
def _cleanup_on_error(client: DockerClient, name: str) -> Iterator[None]:
    """After an error, remove the network and the saved state of a stack that has no container."""
    try:
        yield
    except BaseException:
        with defer_signals(forget=True), suppress(EngineError):
            forget_stack(client, name)
        raise


def reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
    """Have the stack's containers serve `plan` instead. See `lbgen.api.reload`."""
    client = connect(here=True)
    with lock(f"docker-{stack.name}"):
        there = list_containers(client, stack.name)
        progress = options.progress
        plan, chosen, accept, last = accept_reload(
            client, there, labels.read_saved_plan(stack.name), plan, options, partial(_pull_image, client, progress)
        )
        desired = _desired_stack(client, plan, chosen, accept, last.backends, progress)
        warnings = reload_containers(client, desired, there, progress, options.seconds)
        return Result(stack_state(stack.name, list_containers(client, stack.name)), (), warnings)


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
    plan = external_networks.resolve_endpoints(client, plan, backends=last.backends)
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


def _desired_stack(
    client: DockerClient,
    plan: Plan,
    chosen: Sequence[EngineChoice],
    accept: tuple[str, ...],
    backends: bool,
    progress: Callable[[Progress], None],
) -> DesiredStack:
    """The desired stack. Creates its network and, where missing, the helper image."""
    helper = _helper(client, progress)
    where = helper, network.ensure(client, plan.name), certificate_folder(plan)
    return desired_stack(plan, chosen, accept, backends, where, labels.read_saved_plan(plan.name))


def _helper(client: DockerClient, progress: Callable[[Progress], None]) -> str:
    return images.ensure_helper(client, lambda text: progress(Progress(Step.BUILDING, "helper", text)))


def certificate_folder(plan: Plan) -> Path:
    """The folder of the stand-ins' certificates; it depends on the pools."""
    asked = repr([(pool.name, pool.tls) for pool in plan.pools])
    return labels.saved_folder(plan.name) / hashlib.sha256(asked.encode()).hexdigest()[:16]


def _pull_image(
    client: DockerClient, progress: Callable[[Progress], None], target: Engine, version: str
) -> images.Image:
    return images.choose(client, target, version, progress)


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


def _wait_for_routes(client: DockerClient, replacement: Replacement, options: UpOptions) -> tuple[Diagnostic, ...]:
    """Wait for every route of every engine; one behind a traffic switch is asked where no client reaches it yet.
    EngineError LB403 when its container ends, LB405 when a route fails."""
    seconds = options.seconds
    found: list[Diagnostic] = []
    desired = replacement.stack
    there = {x.name: x for x in list_containers(client, desired.kept.plan.name, labels_only=True)}
    for unit in desired.units:
        each, plan = there[unit.container_spec.name], unit.plan
        where = {address.listener: (address.host, address.port) for address in unit.record.addresses}
        title, before = unit.record.title, restart_count(each)
        turned = replacement.switches.get(unit.container_spec.name)
        starts, lack = (
            partial(ensure_alive, each, before, "while starting"),
            partial(container_engine.memory_hint, each.handle),
        )
        if turned is not None:
            turned.wait_listening(seconds, starts, lack)
            where = turned.listener_addresses()
        elif not unit.spec.kernel and any(x.mode is Mode.L4 for x in plan.listeners):
            # Docker's proxy accepts connections, and L4 listeners have no known request.
            asked = [(x.port, str(x.protocol)) for x in plan.listeners]
            address = plan.listeners[0].address  # the same for all of a container
            holder = there[unit.holder[0].name]
            wait_listening(
                holder, address, asked, title=title, seconds=seconds, ensure_alive=starts, resource_hint=lack
            )
        agent = None if unit.agent is None else there[unit.agent[0].name].handle

        def ensure_ready(starts: Callable[[], None] = starts, agent: Container | None = agent) -> None:
            starts()
            if agent is not None:
                wait_for_agent(agent, seconds)

        starts()
        found += readiness.check_routes(
            plan,
            (unit.record.engine, title),
            where.__getitem__,
            seconds=seconds,
            progress=options.progress,
            ensure_ready=ensure_ready,
            resource_hint=lack,
            client=network.gateway(desired.subnet),
        )
    return without_errors(found)
