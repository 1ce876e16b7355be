"""The docker runtime: stacks of containers. See `common.driver.Driver`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, without_errors
from lbgen.engines.api import Engine
from lbgen.plan.model import Mode, Plan
from lbgen.runtime.common import readiness
from lbgen.runtime.common.driver import RELOAD_SECONDS, Progress, ReloadOptions, Result, Step, UpOptions
from lbgen.runtime.common.ports import connections as connections
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.common.selection import for_routes
from lbgen.runtime.common.state import StackState, lock
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
from lbgen.runtime.docker.converge import Converger, forget_stack, list_containers, remove_stack
from lbgen.runtime.docker.decide import accept_reload, certificate_folder, choose_engines
from lbgen.runtime.docker.decide import preview_reload as preview_reload
from lbgen.runtime.docker.decide import preview_up as preview_up
from lbgen.runtime.docker.desired import DesiredStack, EngineChoice, desired_stack
from lbgen.runtime.docker.external_networks import attach_networks as attach_networks
from lbgen.runtime.docker.external_networks import listener_addresses as listener_addresses
from lbgen.runtime.docker.external_networks import plan_behind_front as plan_behind_front
from lbgen.runtime.docker.inspect import lines as lines
from lbgen.runtime.docker.inspect import running as running
from lbgen.runtime.docker.inspect import stack_state
from lbgen.runtime.docker.network import wait_listening
from lbgen.runtime.docker.reload import add_stand_ins, after_commit, check_replacements, needs_reload, reload_containers
from lbgen.runtime.docker.rolling_replace import Replacement, prepare_replacement, recover
from lbgen.runtime.standins.plan import describe_pools

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


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
        helper = partial(_helper, client, progress)
        before = recover(client, plan.name, list_containers(client, plan.name), helper)
        choose = partial(_pull_image, client, progress)
        plan, chosen, skipped = choose_engines(client, plan, engines, options, before, choose, instead or {})

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


def _pull_image(
    client: DockerClient, progress: Callable[[Progress], None], target: Engine, version: str
) -> images.Image:
    return images.choose(client, target, version, progress)


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
        switch = replacement.switches.get(unit.container_spec.name)
        starts, lack = (
            partial(ensure_alive, each, before, "while starting"),
            partial(container_engine.memory_hint, each.handle),
        )
        if switch is not None:
            switch.wait_listening(seconds, starts, lack)
            where = switch.listener_addresses()
        elif not unit.spec.kernel and any(x.mode is Mode.L4 for x in plan.listeners):
            # Docker's proxy accepts connections, and L4 listeners have no known request.
            asked = [(x.port, str(x.protocol)) for x in plan.listeners]
            address = plan.listeners[0].address  # the same for all of a container
            holder = there[unit.holder[0].name].handle
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
