"""The stacks of a topology with tiers as one group: their record on disk, their combined state and output."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.model import TierOf
from lbgen.runtime.common.driver import Driver, Progress, Step
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.state import StackState, read_record, root, write_record

SCHEMA = 1  # of the record, there `format`


class Member(Struct, frozen=True):
    """A replica of a tier, on `engine`."""

    tier: str
    replica: int
    topology: str
    engine: str

    @property
    def of(self) -> TierOf:
        return TierOf(self.topology, self.tier, self.replica)


class Group(Struct, frozen=True):
    """A running topology with tiers; `members` are in the order of traffic."""

    name: str
    runtime: str
    backends: bool
    members: tuple[Member, ...]

    @property
    def names(self) -> frozenset[str]:
        """Of the stacks."""
        return frozenset(each.of.name for each in self.members)


class GroupState(StackState, frozen=True):
    """The combined state: `engines` are named by their part (`web-1`); `parts` are (part, stack), running ones only."""

    on: str = ""
    parts: tuple[tuple[str, StackState], ...] = ()
    group: Group | None = None

    @property
    def runtime(self) -> str:
        return self.on

    @property
    def foreign_owner(self) -> str:
        return next((found for _, each in self.parts if (found := each.foreign_owner)), "")

    @property
    def alive(self) -> bool:
        """Whether all of them are."""
        there = self.group is not None and len(self.parts) == len(self.group.members)
        return there and all(each.alive for _, each in self.parts)


def _path(name: str) -> Path:
    return root() / "tiers" / f"{name}.json"


def read(name: str) -> Group | None:
    """The group of that name; None when there is none. Raises EngineError LB408."""
    return read_record(_path(name), SCHEMA, Group, "remove it")


def write(group: Group) -> None:
    """Write the record atomically. Raises EngineError LB408."""
    write_record(_path(group.name), SCHEMA, group)


def remove(name: str) -> None:
    """Remove the record."""
    _path(name).unlink(missing_ok=True)


def list_groups() -> tuple[Group, ...]:
    """Return all groups with a record."""
    found = (read(path.stem) for path in sorted((root() / "tiers").glob("*.json")) if not path.name.startswith("."))
    return tuple(each for each in found if each is not None)


def state(group: Group, driver: Driver) -> GroupState:
    """Return the state of what runs of the group."""
    return as_one_stack(group, driver.running(group.names))


def as_one_stack(group: Group, running: tuple[StackState, ...]) -> GroupState:
    """Return the stacks of `group` among `running` as one."""
    by_name = {each.name: each for each in running}
    parts = tuple((each.of.part, by_name[each.of.name]) for each in group.members if each.of.name in by_name)
    engines = tuple(
        replace(engine, name=part, engine=engine.name, version=f"{engine.title} {engine.version}")
        for part, stack in parts
        for engine in stack.engines
    )
    endpoints = tuple(endpoint for _, stack in parts for endpoint in stack.endpoints)
    committed = all(stack.committed for _, stack in parts)
    first = parts[0][1] if parts else None
    pid, started = (first.pid, first.started) if first is not None else (0, 0)
    return GroupState(
        group.name, "", pid, started, committed, engines, endpoints, on=group.runtime, parts=parts, group=group
    )


def end(state: GroupState, driver: Driver, progress: Callable[[Progress], None]) -> None:
    """Stop all stacks, those in front first, and remove the record of the group."""
    # Reading them anew raises where they cannot be seen.
    now = state if state.group is None else as_one_stack(state.group, driver.running(state.group.names))
    for part, stack in now.parts:
        driver.end(stack, lambda step: None)
        progress(Progress(Step.STOPPED, part))
    remove(state.name)


def lines(state: GroupState, driver: Driver, part: str | None, *, follow: bool) -> Iterator[Line]:
    """Yield their output; the source is the part, with a suffix such as `-agent` for processes beside its engine."""
    chosen = [(name, stack) for name, stack in state.parts if part in (None, name)]

    def labelled(name: str, stack: StackState) -> Iterator[Line]:
        engines = {engine.name for engine in stack.engines}
        for line in driver.lines(stack, None, follow=follow):
            engine = next((each for each in engines if line.source.startswith(each)), None)
            rest = line.source if engine is None else line.source.removeprefix(engine).removeprefix("-")
            yield replace(line, source=f"{name}-{rest}" if rest else name)

    if not follow:
        for name, stack in chosen:
            yield from labelled(name, stack)
        return
    yield from _together([labelled(name, stack) for name, stack in chosen])


def _together(sources: list[Iterator[Line]]) -> Iterator[Line]:
    """Yield the lines of all stacks as they are written, until all stacks have ended."""
    arrived: queue.SimpleQueue[Line | None] = queue.SimpleQueue()

    def pump(source: Iterator[Line]) -> None:
        try:
            for line in source:
                arrived.put(line)
        finally:
            arrived.put(None)

    for source in sources:
        threading.Thread(target=pump, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        line = arrived.get()
        if line is None:
            left -= 1
        else:
            yield line
