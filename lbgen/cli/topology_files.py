"""The argument TOPOLOGY with what is laid over it, and --watch, which runs a command again when such a file changes.

Apart from `options`, since the commands on running stacks read no topology."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from lbgen.cli import values
from lbgen.cli.output import print_findings, say
from lbgen.diagnostics import LbgenError
from lbgen.spec.find_values import find_values
from lbgen.spec.layering import Document
from lbgen.spec.load import Topology, load_documents
from lbgen.spec.profile import names as profile_names
from lbgen.spec.source import note_read, parse, read_nodes, record_reads
from lbgen.spec.values import FilePath
from lbgen.spec.variables import environment

F = TypeVar("F", bound="Callable[..., object]")
_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 0.3  # without a further change: an editor writes in several steps
Stamps = dict[Path, tuple[int, int, int] | None]


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
        found = load_documents(documents, (*self.settings, *profile), variables=variables)
        for _, name in find_values(found.model, FilePath):
            note_read(found.base / name)
        return found


class ProfileName(values.OneOf):
    """A built-in profile, or a file, whose path is checked when the topology is loaded."""

    def __init__(self) -> None:
        super().__init__(
            "profile", profile_names, "`lbgen schema` lists what a profile may set; a file is written ./file.yaml"
        )

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return `value`, or fail with a usage error."""
        return value if "/" in value or value.endswith((".yaml", ".yml")) else super().convert(value, param, ctx)


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
        type=values.setting,
        multiple=True,
        metavar="FIELD=VALUE",
        help="Set a field, such as listeners.web.port=8081 or routes[api].forward=blue (repeatable).",
    ),
    click.option(
        "--engine-version",
        "versions",
        type=values.engine_version,
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


def topology_option(command: F) -> F:
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


def watch_option(command: F) -> F:
    """Add the option --watch to a command that takes a topology: it runs again when a file that it reads changes."""

    @click.option(
        "--watch",
        "again",
        is_flag=True,
        help="Run again whenever a file of the topology changes: overlays, included files, the profile, variables, and "
        "files that it names, such as certificates. Ctrl-C ends (exit 130).",
    )
    @wraps(command)
    def with_watch(*, again: bool, topology: TopologyFiles, **rest: object) -> object:
        if not again:
            return command(topology=topology, **rest)
        if "-" in (*topology.paths, topology.env_file):
            raise click.UsageError("--watch needs files, not standard input")
        env = () if topology.env_file is None else (Path(topology.env_file),)
        watch(lambda: command(topology=topology, **rest), str(topology), env)
        return None

    return cast("F", with_watch)


def watch(run: Callable[[], object], what: str, also: Collection[Path] = ()) -> None:
    """Call `run` now, and again after each change of a file that it read, or of `also`; until Ctrl-C, which leaves as
    KeyboardInterrupt. Findings are printed and end nothing. `what` names the subject."""
    while True:
        with record_reads() as seen:
            seen |= {path.absolute() for path in also}
            before = _stamps(also)
            try:
                run()
            except LbgenError as error:
                print_findings(error.diagnostics)
            except click.exceptions.Exit:
                pass  # what it found is printed
        gc.collect()  # main() has disabled the collector
        before = {path: before.get(path, stamp) for path, stamp in _stamps(seen).items()}
        say(f"watching {len(seen)} files of {what}; Ctrl-C ends")
        changed = _wait_for_change(before)
        names = ", ".join(sorted(path.name for path in changed))
        say(f"{time.strftime('%H:%M:%S')} {names} changed")


def _wait_for_change(before: Stamps) -> list[Path]:
    """Return the paths that differ from `before`, once no further change comes."""
    while (now := _stamps(before)) == before:
        time.sleep(_LOOK_SECONDS)
    since = time.monotonic()
    while time.monotonic() - since < _SETTLE_SECONDS:
        time.sleep(_LOOK_SECONDS / 4)
        last, now = now, _stamps(before)
        if now != last:
            since = time.monotonic()
    return [path for path in before if now[path] != before[path]]


def _stamps(paths: Collection[Path]) -> Stamps:
    """Time, size and identity of each file; None where there is none."""
    found: Stamps = {}
    for path in paths:
        try:
            about = path.stat()
        except OSError:
            found[path] = None
        else:
            found[path] = (about.st_mtime_ns, about.st_size, about.st_ino)
    return found
