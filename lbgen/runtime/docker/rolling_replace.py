"""Replace engines of a running stack without a gap, by one traffic switch for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.diagnostics import EngineError
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.docker import container, traffic_switch
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.converge import ASIDE, StackContainer, is_orphaned, list_containers
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.traffic_switch import TrafficSwitch

if TYPE_CHECKING:
    from docker import DockerClient

    from lbgen.runtime.docker.desired import DesiredStack, EngineChoice, EngineUnit


class Replacement(Struct):
    """`stack` is the desired one, `switches` has a switch for each new container that replaces a serving one."""

    stack: DesiredStack
    switches: dict[str, TrafficSwitch] = field(default_factory=dict)

    @property
    def alongside(self) -> dict[str, StackContainer]:
        """New container -> the one that serves until the switch."""
        return {name: each.entrypoint.serving for name, each in self.switches.items()}

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(str(each.rules.handle.id) for each in self.switches.values())

    def rollback(self, client: DockerClient, stack: str) -> None:
        """Route new connections to the previous engines again."""
        there = {each.name: each for each in list_containers(client, stack)}
        for name, each in self.switches.items():
            with suppress(EngineError):  # the first error is the one to report
                each.rollback(there.get(name))

    def drain(self, seconds: float, progress: Callable[[Progress], None]) -> int:
        """Drain the previous engines; returns how many connections were cut."""
        cut = 0
        for each in self.switches.values():
            who = each.entrypoint.serving.record.title
            progress(Progress(Step.DRAINING, each.unit.record.engine, f"{who} before it has up to {seconds:g} s"))
            left = each.drain(seconds)
            cut += left
            if left:
                said = f"{left} connections of {who} were still open after {seconds:g} s, and were cut"
                progress(Progress(Step.DRAINED, each.unit.record.engine, said))
        return cut


@contextmanager
def prepare_replacement(
    client: DockerClient,
    desired: DesiredStack,
    before: Sequence[StackContainer],
    make: Callable[[Sequence[EngineChoice]], DesiredStack],
    progress: Callable[[Progress], None],
) -> Iterator[Replacement]:
    """Prepare the switch of each engine of `desired` that replaces a serving one, on the other side of its entrypoint;
    `make` makes the stack of engines on other sides. Where that is impossible, `progress` gets the reason, and the
    previous engine has to stop first."""
    with ExitStack() as stack:
        found: dict[str, tuple[traffic_switch.Entrypoint, StackContainer]] = {}
        entrypoints = find_entrypoints(desired, before)
        for unit in desired.units:
            entrypoint = entrypoints.get(unit.container_spec.name)
            if entrypoint is None:
                continue
            try:
                rules = _tool(client, stack, entrypoint, unit, desired)
            except EngineError as error:
                said = f"it cannot be replaced without a gap: {error.diagnostics[0].message}"
                progress(Progress(Step.REPLACING, unit.record.engine, said))
                continue
            found[unit.container_spec.name] = entrypoint, rules
        if not found:
            yield Replacement(desired)
            return
        other = on_other_side(desired, found)
        desired = make(other)
        switches = {}
        for unit in desired.units:
            if unit.container_spec.name in found:
                entrypoint, rules = found[unit.container_spec.name]
                switches[unit.container_spec.name] = TrafficSwitch(entrypoint, unit, unit.holder[0].address, rules)
                switches[unit.container_spec.name].prepare()
        yield Replacement(desired, switches)


def find_entrypoints(desired: DesiredStack, before: Sequence[StackContainer]) -> dict[str, traffic_switch.Entrypoint]:
    """By the name of its new container: where each engine can take over from the one that serves, while that serves."""
    names = {each.name: each for each in before}
    found = {}
    for unit in desired.units:
        entrypoint, now = traffic_switch.find_entrypoint(unit, before), names.get(unit.container_spec.name)
        if entrypoint is None:
            continue
        if now is None or now.record.hash != unit.record.hash or is_orphaned(now, entrypoint.holder):
            found[unit.container_spec.name] = entrypoint
    return found


def on_other_side(desired: DesiredStack, switched: Collection[str]) -> tuple[EngineChoice, ...]:
    """The engines of `desired`, those whose containers are `switched` on the other side of their entrypoint."""
    return tuple(
        replace(unit.choice, side=1 - unit.choice.side) if unit.container_spec.name in switched else unit.choice
        for unit in desired.units
    )


def _tool(
    client: DockerClient,
    stack: ExitStack,
    entrypoint: traffic_switch.Entrypoint,
    unit: EngineUnit,
    desired: DesiredStack,
) -> StackContainer:
    """A container that has proven able to set nft rules, until `stack` closes. An error of docker's is retried once,
    since connections are cut without rules. EngineError LB403, LB421."""
    opened = (client, desired.kept.plan.name, entrypoint.holder, desired.helper)
    for last in (False, True):
        try:
            with ExitStack() as tried:
                rules = tried.enter_context(traffic_switch.rules_container(*opened))
                TrafficSwitch(entrypoint, unit, unit.holder[0].address, rules).prepare()
                stack.push(tried.pop_all())
                return rules
        except EngineError as error:
            if last or any(each.code != "LB421" for each in error.diagnostics):
                raise
    raise AssertionError("the last try returns or raises")


def recover(
    client: DockerClient, stack: str, there: Sequence[StackContainer], helper: Callable[[], str]
) -> tuple[StackContainer, ...]:
    """After an `up` that was killed while two engines ran at one entrypoint, keep only the one that serves."""
    holders = {each.record.offset: each for each in there if each.record.role is Role.PORTS and each.running}
    aside = [x for x in there if x.name.endswith(ASIDE) and x.record.role is Role.ENGINE and x.running]
    for each in aside:
        holder = holders.get(each.record.offset)
        if holder is None or is_orphaned(each, holder) or each.record.side != holder.record.side:
            continue
        own = each.name.removesuffix(ASIDE)
        for other in there:
            same = other.record.role is Role.ENGINE and other.record.offset == each.record.offset and other is not each
            if same or other.name == f"{own}-{Role.AGENT}":
                with docker_errors(f"removing the container {other.name}"):
                    container.remove(other.handle)
        with docker_errors(f"renaming the container {each.name}"):
            each.handle.rename(own)
        with traffic_switch.rules_container(client, stack, holder, helper()) as rules:
            traffic_switch.route_to(rules, holder, each)
    return list_containers(client, stack) if aside else tuple(there)
