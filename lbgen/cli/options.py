"""Arguments and options that several verbs share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec import Struct

from lbgen.cli.engine_version import EngineVersion
from lbgen.cli.setting import Setting
from lbgen.engines.api import engine_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lbgen.spec.load import Topology

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


class FeatureNames(FeatureName):
    """Features, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return them as a tuple, or fail with a usage error."""
        words = value if isinstance(value, tuple) else value.split(",")
        return tuple(super(FeatureNames, self).convert(word, param, ctx) for word in words)


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


class TopologyFiles(Struct, frozen=True):
    """The topology that a command line names; as text, its first file."""

    paths: tuple[str, ...]
    profile: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    env_file: str | None = None
    env_text: bytes | None = None  # of standard input where `env_file` is `-`, read once for several topologies

    def __str__(self) -> str:
        return "<stdin>" if self.paths[0] == "-" else self.paths[0]

    def load(self) -> Topology:
        """Load it; `-` is standard input. Raises LbgenError with the findings."""
        from lbgen.spec.layering import Document
        from lbgen.spec.load import load_documents
        from lbgen.spec.source import parse, read_nodes
        from lbgen.spec.variables import environment

        env_file = "<stdin>" if self.env_file == "-" else self.env_file
        variables = environment(Path(env_file) if env_file is not None else None, self.env_text)
        documents = []
        for path in self.paths:
            if path == "-":
                root = parse(sys.stdin.buffer.read(), "<stdin>")
                documents.append(Document("<stdin>", Path(), root))
            else:
                documents.append(Document(path, Path(path).parent, read_nodes(Path(path))))
        profile = (("profile", self.profile),) if self.profile is not None else ()
        return load_documents(documents, (*self.settings, *profile), variables=variables)


class ProfileName(OneOf):
    """A built-in profile, or a file."""

    name = "profile"
    hint = "`lbgen schema` lists what a profile may set; a file is written ./file.yaml"

    def words(self) -> tuple[str, ...]:
        """Every built-in profile."""
        from lbgen.spec.profile import names

        return names()

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value`; a file's path is checked when the topology is loaded."""
        return value if "/" in value or value.endswith((".yaml", ".yml")) else super().convert(value, param, ctx)


class PageFile(click.Path):
    """A file for a report, or with `dash` also `-`; its folder must be there before a long command begins."""

    def __init__(self, *, dash: bool = True) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the path, or fail with a usage error."""
        found = str(super().convert(value, param, ctx))
        if found != "-" and not Path(found).parent.is_dir():
            self.fail(f"there is no folder {str(Path(found).parent)!r}", param, ctx)
        return found


_LAYERS: tuple[Callable[[Any], Any], ...] = (
    click.argument("topology", required=False, type=click.Path(dir_okay=False, allow_dash=True), metavar="TOPOLOGY"),
    click.option(
        "-f",
        "--file",
        "over",
        type=click.Path(dir_okay=False, allow_dash=True),
        multiple=True,
        metavar="FILE",
        help="Lay this file over the ones before it: mappings merge, routes merge by name, other lists replace "
        "(repeatable).",
    ),
    click.option("--profile", type=ProfileName(), help="Use this profile instead of the topology's."),
    click.option(
        "--set",
        "settings",
        type=Setting(),
        multiple=True,
        metavar="FIELD=VALUE",
        help="Set a field, such as listeners.web.port=8081 or routes[api].forward=blue (repeatable).",
    ),
    click.option(
        "--engine-version",
        "versions",
        type=EngineVersion(),
        multiple=True,
        metavar="ENGINE=VERSION",
        help="Use this version of an engine, such as haproxy=3.0 (repeatable).",
    ),
    click.option(
        "--env-file",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Read variables for ${NAME} from lines NAME=VALUE, `-` from standard input; the environment's own win.",
    ),
)


def refuse_second_stdin(words: Sequence[str | None]) -> None:
    """Raise a usage error where `-` is given more than once, as only the first reader would get anything."""
    if words.count("-") > 1:
        raise click.UsageError("- is standard input, which can be read only once: name a file instead of one -")


def topology(command: F) -> F:
    """Add the argument TOPOLOGY, a file or `-`, and the options that are laid over it, as one TopologyFiles."""

    @wraps(command)
    def with_files(
        *,
        topology: str | None,
        over: tuple[str, ...],
        profile: str | None,
        settings: tuple[tuple[str, str], ...],
        versions: tuple[tuple[str, str], ...],
        env_file: str | None,
        **rest: object,
    ) -> object:
        paths = (*((topology,) if topology is not None else ()), *over)
        if not paths:
            raise click.UsageError("Missing argument 'TOPOLOGY'.", click.get_current_context())
        refuse_second_stdin((*paths, env_file))
        env_text = sys.stdin.buffer.read() if env_file == "-" else None
        return command(topology=TopologyFiles(paths, profile, (*settings, *versions), env_file, env_text), **rest)

    added: Any = with_files
    for add in reversed(_LAYERS):
        added = add(added)
    return cast("F", added)


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
        type=FeatureNames(),
        callback=lambda context, parameter, lists: tuple(word for words in lists for word in words),
        help="Accept these features, separated by commas, where an engine only approximates them; `all` accepts every "
        "one (repeatable).",
    )(command)


def html(command: F) -> F:
    """Add the option --html."""
    return click.option(
        "--html",
        type=PageFile(),
        metavar="FILE",
        help="Also write a page that shows the verdicts and leads from each rendered line to the topology; it needs no "
        "network. `-` prints the page and nothing else.",
    )(command)


def json_flag(command: F) -> F:
    """Add the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)


def watch(command: F) -> F:
    """Add the option --watch to a command that takes a topology: it runs again when a file that it reads changes."""

    @click.option(
        "--watch",
        "again",
        is_flag=True,
        help="Run again whenever a file of the topology changes: overlays, included files, the profile, variables. "
        "Ctrl-C ends (exit 130).",
    )
    @wraps(command)
    def with_watch(*, again: bool, topology: TopologyFiles, **rest: object) -> object:
        if not again:
            return command(topology=topology, **rest)
        from lbgen.cli.watch import watch as run_again

        if "-" in (*topology.paths, topology.env_file):
            raise click.UsageError("--watch needs files, not standard input")
        env = () if topology.env_file is None else (Path(topology.env_file),)
        run_again(lambda: command(topology=topology, **rest), str(topology), env)
        return None

    return cast("F", with_watch)


def add_verbosity(command: click.Command) -> click.Command:
    """Add --quiet and --verbose to a command and to those within it; every verb has them."""
    if not any(each.name == "quiet" for each in command.params):
        for level, short, does in (
            ("quiet", "-q", "Print the result and errors alone: no progress, notes, warnings and advice."),
            ("verbose", "-v", "Print all findings with their causes and remedies, and the time of each step."),
        ):
            command.params.append(
                click.Option([short, f"--{level}"], is_flag=True, expose_value=False, help=does, callback=_set_level)
            )
    if isinstance(command, click.Group):
        for each in command.commands.values():
            add_verbosity(each)
    return command


def _set_level(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    from lbgen.cli.output import Verbosity, set_verbosity

    if given:
        set_verbosity(context, Verbosity(str(parameter.name)))
