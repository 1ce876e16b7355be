"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from lbgen.engines.api import engine_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound="Callable[..., object]")


class EngineName(click.ParamType[str]):
    """An installed engine, with shell completion; the list is read only when needed."""

    name = "engine"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return an installed engine's name, or fail with a usage error that lists the installed ones."""
        if value not in engine_names():
            self.fail(f"unknown engine {value!r}; installed: {', '.join(engine_names())}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in engine_names() if name.startswith(incomplete)]


class Seconds(click.FloatRange):
    """A finite time in seconds."""

    def __init__(self) -> None:
        super().__init__(min=0, max=86_400)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fail for `nan`, which a range check does not reject."""
        found: float = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return found


class OneOf(click.ParamType[str]):
    """One of many words, with shell completion; a usage error suggests the nearest one."""

    def words(self) -> tuple[str, ...]:
        """Return the allowed words."""
        raise NotImplementedError

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` if it is an allowed word, or fail with a usage error."""
        if value not in self.words():
            from difflib import get_close_matches

            near = get_close_matches(value, self.words(), n=1, cutoff=0.8)
            hint = f"did you mean {near[0]!r}?" if near else self.hint
            self.fail(f"there is no {self.name} {value!r}; {hint}", param, ctx)
        return value

    hint = ""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


class FeatureName(OneOf):
    """A feature as `lbgen explain` lists them, or `all`."""

    name = "feature"
    hint = "`lbgen explain` lists the features of a topology; `all` accepts any"

    def words(self) -> tuple[str, ...]:
        """Return `all` and every feature."""
        from lbgen.plan.features import Feature

        return ("all", *(feature.value for feature in Feature))


class FindingCode(OneOf):
    """The code of a finding."""

    name = "code"
    hint = "`lbgen check` shows the codes of findings"

    def words(self) -> tuple[str, ...]:
        """Every code."""
        from lbgen.codes import CODES

        return tuple(CODES)


class PartName(EngineName):
    """An engine of a stack, or a replica of a tier; the running stack validates it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` unchanged; the stack rejects unknown names."""
        return value


def topology(command: F) -> F:
    """Add the argument TOPOLOGY, a file."""
    return click.argument("topology", type=click.Path(dir_okay=False), metavar="TOPOLOGY")(command)


def engines(command: F) -> F:
    """Add the option -e/--engine, repeatable."""
    return click.option(
        "-e", "--engine", "chosen", type=EngineName(), multiple=True, help="Only this engine (repeatable)."
    )(command)


def accept(command: F) -> F:
    """Add the option --accept, repeatable."""
    return click.option(
        "--accept",
        multiple=True,
        type=FeatureName(),
        help="Accept this feature where an engine only approximates it; `all` accepts every one (repeatable).",
    )(command)


def json_flag(command: F) -> F:
    """Add the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)
