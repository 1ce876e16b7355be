"""`lbgen up`, `reload` and `preview`: start a stack, apply a changed topology to it, or say what either would do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Column, Table

import lbgen
from lbgen.api import REPORTED_AT_START, Progress, Stack, Step, SwapResult
from lbgen.cli import exit_codes, options, values
from lbgen.cli.diff import print_comparison
from lbgen.cli.findings import summary
from lbgen.cli.output import Verbosity, console, pluralize, print_findings, print_json, say, verbosity
from lbgen.cli.stacks import stacks_table
from lbgen.cli.topology_files import TopologyFiles, topology_option, watch_option

if TYPE_CHECKING:
    from lbgen.conformance.preview import Preview
    from lbgen.spec.load import Topology

_COLOURS = {"replace with a gap": "red", "remove": "yellow", "no change": "dim"}
_TICK_SECONDS = 1.0


@click.command(
    epilog="\b\nExamples:\n  lbgen up shop.yaml               # every engine that can serve it, each on its own ports\n"
    "  lbgen up shop.yaml -e nginx      # one engine, on the topology's own ports\n"
    "  lbgen up shop.yaml -e envoy --real-endpoints   # no stand-ins\n"
    "  lbgen up shop.yaml --runtime local   # no containers\n"
    "  lbgen up hybrid.yaml --replicas web=5   # a topology with tiers\n"
    "  lbgen up hybrid.yaml --runtime swarm   # on the nodes of a swarm\n"
    "  lbgen up shop.yaml --swap haproxy    # replace the running engine without losing a request"
)
@topology_option
@options.engines
@options.runtime
@options.real_endpoints
@options.replicas
@options.namespace
@click.option(
    "--swap",
    type=values.EngineName(),
    metavar="ENGINE",
    help="Replace the running engine (-e names it if there are several) by this one behind the same published ports, "
    "after verifying that both behave the same; containers only.",
)
@click.option(
    "--drain",
    type=values.Seconds(),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long open connections of a replaced container or of a removed replica may last.",
)
@options.accept
@options.dry_run
@options.json_flag
def up_command(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    runtime: str | None,
    real_endpoints: bool,
    replicas: tuple[str, ...],
    namespace: str | None,
    swap: str | None,
    drain: float,
    accept: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start engines and stand-in endpoints; return when every route answers as the oracle predicts.

    The stack runs until `lbgen down`. If `up` fails or is interrupted, it stops what it started.
    """
    loaded = topology.load()
    if dry_run:
        if swap is not None:
            raise click.UsageError(
                "--dry-run does not try a --swap, which verifies first and changes nothing if it fails"
            )
        print_preview(
            lbgen.preview(
                loaded,
                chosen or None,
                runtime=runtime,
                backends=not real_endpoints,
                accept=accept,
                replicas=parse_replicas(loaded, replicas),
                namespace=namespace,
            ),
            as_json=as_json,
        )
        return
    out = console(stderr=True)
    out.quiet = out.quiet or as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.up(
            loaded,
            chosen or None,
            swap=swap,
            runtime=runtime,
            backends=not real_endpoints,
            accept=accept,
            replicas=parse_replicas(loaded, replicas),
            namespace=namespace,
            drain=drain,
            progress=progress,
        )
    if as_json:
        print_json(stack.as_dict())
        return
    _print_started(stack)


def _print_started(stack: Stack) -> None:
    for line in summary((each.name for each in stack.engines), stack.skipped):
        say(line)
    print_findings(stack.warnings)
    if stack.unchanged:
        say(f"{stack.name} is up to date; nothing was changed")
    if stack.reloaded:
        say(f"reloaded {stack.name} without a restart")
    if stack.swapped is not None:
        for line in describe_swap(stack.swapped):
            click.echo(line)
    console().print(stacks_table([stack]))
    say(f"stop it with: lbgen down {stack.name}")


def describe_swap(cost: SwapResult) -> list[str]:
    """Return lines that say what replacing an engine cost."""
    first = f" (the first: {cost.first})" if cost.first else ""
    return [
        f"{cost.after} replaced {cost.before}; verification: {cost.verified}",
        f"requests failed: {cost.failed} of {cost.requests}{first}; gap: {cost.gap_ms} ms",
        f"sockets dropped: {cost.dropped} of {cost.sockets} held open; "
        f"connections of {cost.before} still open when the drain time ended: {cost.cut}",
    ]


@click.command(
    epilog="\b\nExamples:\n  lbgen reload shop.yaml\n  lbgen reload shop.yaml --name staging   # of another name"
)
@topology_option
@click.option("--name", help="The stack's name (default: the topology's).")
@options.accept
@options.dry_run
@options.json_flag
@watch_option
def reload_command(
    topology: TopologyFiles, name: str | None, accept: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Apply a changed topology to a running stack without losing a request.

    The engines' own checkers validate the new files first. The files are then replaced, each engine reloads in its own
    way, and every route is requested; if one does not answer, the previous files are restored (exit 3). A change that
    needs a restart is refused before anything is changed; `lbgen up` applies it.
    """
    loaded = topology.load()
    if dry_run:
        print_preview(lbgen.preview(loaded, name=name, accept=accept, by_reload=True), as_json=as_json)
        return
    out = console(stderr=True)
    out.quiet = out.quiet or as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.reload(loaded, name=name, accept=accept, progress=progress)
    if as_json:
        print_json(stack.as_dict())
        return
    print_findings(stack.warnings)
    console().print(stacks_table([stack]))


@click.command(
    epilog="\b\nExamples:\n  lbgen preview shop.yaml\n  lbgen preview shop.yaml --exit-code || lbgen up shop.yaml\n"
    "  lbgen preview shop.yaml --reload   # of `lbgen reload shop.yaml`\n"
    "  lbgen preview hybrid.yaml --replicas web=5 --json"
)
@topology_option
@options.engines
@options.runtime
@options.real_endpoints
@options.replicas
@options.namespace
@click.option("--reload", "by_reload", is_flag=True, help="Of `lbgen reload` instead of `lbgen up`.")
@click.option("--name", help="The stack's name (default: the topology's).")
@options.accept
@click.option("--exit-code", is_flag=True, help=f"Exit {exit_codes.CHANGES} if something would change.")
@options.json_flag
def preview_command(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    runtime: str | None,
    real_endpoints: bool,
    replicas: tuple[str, ...],
    namespace: str | None,
    by_reload: bool,
    name: str | None,
    accept: tuple[str, ...],
    exit_code: bool,
    as_json: bool,
) -> None:
    """Show what `lbgen up` would do to each part of a stack, and which requests would be answered differently. Nothing
    is done: nothing is started, stopped, signalled, pulled or built.

    The actions are: create; reload, by the same process or container; replace without a gap; replace with a gap, while
    which requests are refused; remove; no change. The engines' own checkers do not run (see lbgen check). Exit 0; with
    --exit-code 6 if something would change.
    """
    loaded = topology.load()
    if by_reload and (chosen or runtime or real_endpoints or replicas):
        raise click.UsageError("--reload takes the engines, the runtime and the endpoints as they run")
    found = lbgen.preview(
        loaded,
        chosen or None,
        runtime=runtime,
        backends=not real_endpoints,
        accept=accept,
        name=name,
        replicas=parse_replicas(loaded, replicas),
        namespace=namespace,
        by_reload=by_reload,
    )
    print_preview(found, as_json=as_json)
    if exit_code and found.changes:
        raise click.exceptions.Exit(exit_codes.CHANGES)


def print_preview(found: Preview, *, as_json: bool) -> None:
    """Print a preview for people, or as JSON."""
    if as_json:
        print_json(found.as_dict())
        return
    if found.skipped:
        for line in summary((x.name for x in found.parts if x.kind == "engine"), found.skipped):
            say(line)
    print_findings(found.warnings)
    out = console()
    out.print(_table(found))
    if found.compared is not None:
        print_comparison(out, found.compared)
    click.echo(_sum(found))


def _table(found: Preview) -> Table:
    made = Table("part", "action", Column("why", overflow="fold"), box=box.SIMPLE_HEAD)
    for part in found.parts:
        colour = _COLOURS.get(part.action, "green")
        made.add_row(f"{part.kind} {part.name}".strip(), f"[{colour}]{part.action}[/]", escape(part.reason))
    return made


def _sum(found: Preview) -> str:
    if not found.changes:
        return f"{found.name} ({found.runtime}): nothing would change"
    number = pluralize(sum(part.action != "no change" for part in found.parts), "part")
    cost = "requests would be refused meanwhile" if found.interrupts else "no request would be lost"
    return f"{found.name} ({found.runtime}): {number} would change; {cost}"


def parse_replicas(topology: Topology, written: tuple[str, ...]) -> dict[str, int]:
    """Return replicas by tier. The tier may be omitted where only one can have replicas. Raises click.UsageError."""
    found: dict[str, int] = {}
    for text in written:
        tier, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit():
            raise click.UsageError(f"--replicas takes TIER=N or N, not {text!r}")
        if not tier:
            found_tiers = lbgen.tiers(topology)
            inner = [each.name for each in found_tiers if not each.entry] if found_tiers else [""]
            if len(inner) != 1:
                hint = f"name one of {', '.join(inner)}" if inner else "no tier of this topology can have replicas"
                raise click.UsageError(f"--replicas {text} does not name a tier; {hint}")
            tier = inner[0]
        found[tier] = int(number)
    return found


@contextmanager
def steps(out: Console, doing: str) -> Iterator[Steps]:
    """Print completed steps and the current one, initially `doing`, on `out`, which may be quiet."""
    with out.status(doing) as status:
        shown = Steps(status, doing)
        ended = threading.Event()
        clock = threading.Thread(target=shown.tick, args=(ended,), name="progress", daemon=True)
        clock.start()
        try:
            yield shown
        finally:
            ended.set()
            clock.join()


class Steps:
    """Prints each step that it is called with. On a terminal one line shows the current step; a file or a pipe gets a
    line for it whenever no other line was printed for a second."""

    def __init__(self, status: Status, doing: str, now: Callable[[], float] = time.monotonic) -> None:
        self._status = status
        self._doing = doing
        self._now = now
        self._since = self._said = self._begun = now()
        self._timed = verbosity() is Verbosity.VERBOSE

    def __call__(self, step: Progress) -> None:
        following = {
            Step.POOLS: "starting stand-ins",
            Step.BACKENDS: "rendering configurations",
            Step.STARTED: "waiting until it listens",
            Step.LISTENING: "requesting its routes",
        }
        who = f"{step.engine}: " if step.engine else ""
        detail = f" {step.detail}" if step.detail else ""
        if step.step in REPORTED_AT_START:
            self._go_on(f"{who}{step.step}{detail}")
        elif step.done < step.total:
            self._go_on(f"{who}routes answer {step.done}/{step.total}")
        else:
            count = f" {step.done}/{step.total}" if step.total else ""
            detail = f" ({step.detail})" if step.detail else ""
            self._print(f"{who}{step.step}{count}{detail}")
            self._go_on(f"{who}{following.get(step.step, 'continuing')}")

    def tick(self, ended: threading.Event) -> None:
        """Show the current step every second until `ended` is set."""
        while not ended.wait(_TICK_SECONDS / 4):
            self.refresh()

    def refresh(self) -> None:
        """Show the current step if it is time to."""
        now = self._now()
        doing = f"{self._doing}, {now - self._since:.0f} s" if now - self._since >= _TICK_SECONDS else self._doing
        if self._status.console.is_terminal:
            self._status.update(doing)
        elif now - self._said >= _TICK_SECONDS:
            self._print(doing)

    def _go_on(self, doing: str) -> None:
        if doing.rstrip("/0123456789") != self._doing.rstrip("/0123456789"):
            self._since = self._now()
        self._doing = doing
        if self._status.console.is_terminal:
            self._status.update(doing)

    def _print(self, line: str) -> None:
        self._said = self._now()
        if self._timed:
            line = f"{self._said - self._begun:7.2f} s  {line}"
        self._status.console.print(line, style="dim", markup=False)
