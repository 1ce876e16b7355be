"""What the verbs about running stacks share: the table of URLs, and a stack meant by topology or by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from lbgen.runtime.api import Stack


def stack_argument(command: Callable[..., None]) -> Callable[..., None]:
    """The optional argument STACK: a topology file or a stack's name."""
    return click.argument("stack", required=False, metavar="[TOPOLOGY|NAME]")(command)


def stack_name(stack: str | None) -> str | None:
    """The name that STACK means: itself, or the name in that topology file; None = the only stack running."""
    if stack is None or not Path(stack).is_file():
        return stack
    import lbgen

    return lbgen.load(stack).name


def table(stacks: Sequence[Stack]) -> Table:
    """One row per engine and listener."""
    from rich.table import Column, Table

    made = Table("stack", "engine", "state", "listener", Column("url", no_wrap=True), "pid")
    for stack in stacks:
        for engine in stack.engines:
            state = "[green]running[/]" if engine.running else f"[red]{engine.ended or 'gone'}[/]"
            if engine.restarts:
                state += f" (started again {engine.restarts}x, was {engine.died})"
            for index, address in enumerate(engine.addresses):
                head = (stack.name, f"{engine.name} {engine.version}", state) if index == 0 else ("", "", "")
                made.add_row(*head, address.listener, address.url, str(engine.pid or "-") if index == 0 else "")
    return made


def health(stacks: Sequence[Stack]) -> Table | None:
    """One row per endpoint that an agent checks; None without."""
    from datetime import datetime

    from rich.markup import escape
    from rich.table import Column, Table

    colours = {"up": "green", "down": "red"}
    made = Table("stack", "engine", "pool", Column("endpoint", no_wrap=True), "state", "since", "last error")
    for stack in stacks:
        for engine in stack.engines:
            for each in engine.health:
                state = f"[{colours.get(each.state, 'yellow')}]{each.state}[/]"
                since = f"{datetime.fromtimestamp(each.since).astimezone():%F %T}"
                made.add_row(stack.name, engine.name, each.pool, each.endpoint, state, since, escape(each.error))
    return made if made.row_count else None
