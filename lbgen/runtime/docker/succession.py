"""What shall replace an engine of a stack -> the turns that do it without a gap; where there is none, why."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lbgen.diagnostics import EngineError
from lbgen.runtime.common.progress import Progress, Step
from lbgen.runtime.docker import container, turn
from lbgen.runtime.docker.client import told
from lbgen.runtime.docker.converge import ASIDE, Found, found, outlived
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from docker import DockerClient

    from lbgen.runtime.docker.wanted import Chosen, Part, Whole


@dataclass(slots=True)
class Succession:
    """`made` is what the stack shall be, `turns` those parts of it that replace what serves, by their names."""

    made: Whole
    turns: dict[str, Turn] = field(default_factory=dict)

    @property
    def beside(self) -> dict[str, Found]:
        """New container -> the one that serves on until it is turned to."""
        return {name: each.entry.served for name, each in self.turns.items()}

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(str(each.tool.made.id) for each in self.turns.values())

    def back(self, client: DockerClient, stack: str) -> None:
        """Whatever was turned leads to the engines before again."""
        there = {each.name: each for each in found(client, stack)}
        for name, each in self.turns.items():
            with suppress(EngineError):  # what was wrong first is what is told
                each.back(there.get(name))

    def drain(self, seconds: float, progress: Callable[[Progress], None]) -> int:
        """Have the engines before end; how many connections were cut."""
        cut = 0
        for each in self.turns.values():
            who = each.entry.served.record.title
            progress(Progress(Step.DRAINING, each.part.record.engine, f"{who} before it has up to {seconds:g} s"))
            left = each.drain(seconds)
            cut += left
            if left:
                said = f"{left} connections of {who} were still open after {seconds:g} s, and were cut"
                progress(Progress(Step.DRAINED, each.part.record.engine, said))
        return cut


@contextmanager
def succession(
    client: DockerClient,
    chosen: Sequence[Chosen],
    before: Sequence[Found],
    make: Callable[[Sequence[Chosen]], Whole],
    progress: Callable[[Progress], None],
) -> Iterator[Succession]:
    """How the parts that `make` makes of `chosen` come to serve. Each that replaces one that serves gets the other side
    of its entry; where that cannot be, the reason is told and it has to be stopped first."""
    made = make(chosen)
    names = {each.name: each for each in before}
    with ExitStack() as stack:
        found: dict[str, tuple[turn.Entry, Found]] = {}
        for part in made.parts:
            entry = turn.entry(part, before)
            if entry is None:
                continue
            now = names.get(part.wanted.name)
            if now is not None and now.record.hash == part.record.hash and not outlived(now, entry.holder):
                continue
            try:
                tool = _tool(client, stack, entry, part, made)
            except EngineError as error:
                said = f"it cannot be replaced without a gap: {error.diagnostics[0].message}"
                progress(Progress(Step.REPLACING, part.record.engine, said))
                continue
            found[part.wanted.name] = entry, tool
        if not found:
            yield Succession(made)
            return
        other = tuple(
            replace(each, side=1 - each.side) if part.wanted.name in found else each
            for each, part in zip(chosen, made.parts, strict=True)
        )
        made = make(other)
        turns = {}
        for part in made.parts:
            if part.wanted.name in found:
                entry, tool = found[part.wanted.name]
                turns[part.wanted.name] = Turn(entry, part, part.ports[0].address, tool)
                turns[part.wanted.name].prepare()
        yield Succession(made, turns)


def _tool(client: DockerClient, stack: ExitStack, entry: turn.Entry, part: Part, made: Whole) -> Found:
    """A container, for as long as `stack` is open, that has shown that it can set the rules of a turn. An error of
    docker's may be a passing one: it is tried again once, as without rules connections are cut. EngineError LB403,
    LB421.
    """
    try:
        return _tool_that_works(client, stack, entry, part, made)
    except EngineError as error:
        if any(each.code != "LB421" for each in error.diagnostics):
            raise
        return _tool_that_works(client, stack, entry, part, made)


def _tool_that_works(client: DockerClient, stack: ExitStack, entry: turn.Entry, part: Part, made: Whole) -> Found:
    with ExitStack() as tried:
        tool = tried.enter_context(turn.tool(client, made.kept.plan.name, entry.holder, made.helper))
        Turn(entry, part, part.ports[0].address, tool).prepare()
        stack.push(tried.pop_all())
        return tool


def recover(client: DockerClient, stack: str, there: Sequence[Found], helper: Callable[[], str]) -> tuple[Found, ...]:
    """After an `up` that was killed while two engines ran at one entry: the one that serves stays, the other goes."""
    holders = {each.record.offset: each for each in there if each.record.role is Role.PORTS and each.running}
    aside = [x for x in there if x.name.endswith(ASIDE) and x.record.role is Role.ENGINE and x.running]
    for each in aside:
        holder = holders.get(each.record.offset)
        if holder is None or outlived(each, holder) or each.record.side != holder.record.side:
            continue
        own = each.name.removesuffix(ASIDE)
        for other in there:
            same = other.record.role is Role.ENGINE and other.record.offset == each.record.offset and other is not each
            if same or other.name == f"{own}-{Role.AGENT}":
                with told(f"removing the container {other.name}"):
                    container.remove(other.made)
        with told(f"renaming the container {each.name}"):
            each.made.rename(own)
        with turn.tool(client, stack, holder, helper()) as tool:
            turn.lead(tool, holder, each)
    return found(client, stack) if aside else tuple(there)
