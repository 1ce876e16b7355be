"""Arguments and flags that several verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from lbgen.engines.api import engine_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

F = TypeVar("F", bound="Callable[..., object]")


class EngineName(click.ParamType[str]):
    """An installed engine, completed by the shell; which ones there are is asked only when needed."""

    name = "engine"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`value` when such an engine is installed; a usage error that names them all otherwise."""
        if value not in engine_names():
            self.fail(f"unknown engine {value!r}; installed: {', '.join(engine_names())}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that start with what was typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in engine_names() if name.startswith(incomplete)]


class PartName(EngineName):
    """An engine of a stack, or a replica of a tier: what there is says the stack."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`value` as it stands; the stack refuses what it has not."""
        return value


def topology(command: F) -> F:
    """The argument TOPOLOGY: a file."""
    return click.argument("topology", type=click.Path(dir_okay=False), metavar="TOPOLOGY")(command)


def engines(command: F) -> F:
    """-e/--engine, repeatable."""
    return click.option(
        "-e", "--engine", "chosen", type=EngineName(), multiple=True, help="Only this engine (repeatable)."
    )(command)


def accept(command: F) -> F:
    """--accept, repeatable."""
    return click.option(
        "--accept",
        multiple=True,
        metavar="FEATURE",
        help="Accept this feature where it is only approximate; `all` for every one (repeatable).",
    )(command)


def json_flag(command: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)
