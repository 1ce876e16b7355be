"""The `lbgen` command: a verb's module is imported only when that verb runs."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from difflib import get_close_matches
from errno import EDQUOT, ENOSPC
from importlib import import_module
from pathlib import Path

import click

from lbgen.cli import exit_codes
from lbgen.cli.output import Verbosity, adapt_output, print_findings, set_verbosity
from lbgen.diagnostics import LbgenError
from lbgen.runtime.common import processes
from lbgen.system_errors import remedy
from lbgen.version import VERSION

# Verb to its line in the help.
VERBS = {
    "init": "Write a commented starter topology.",
    "check": "Report findings; run the engines' own checkers where installed.",
    "fmt": "Write topologies in one canonical form that keeps their comments.",
    "render": "Write native configurations.",
    "export": "Write a folder for compose, a swarm, Kubernetes, systemd or the Gateway API.",
    "explain": "Show features x engines with verdicts, or the topology behind a line.",
    "config": "Print the topology with profile, defaults and variables written out.",
    "route": "Say which rule serves a request, and why the others do not.",
    "diff": "Show the requests whose answer changes between two topologies.",
    "verify": "Compare engines with the oracle and each other, including faults and times.",
    "fingerprint": "Compare a version of an engine with another on fixed bytes.",
    "bench": "Measure engines under load, after they verified the topology.",
    "preview": "Show what `up` or `reload` would do to what runs now.",
    "up": "Start engines and stand-in endpoints.",
    "reload": "Apply a changed topology to a running stack without losing a request.",
    "ps": "Show running stacks.",
    "logs": "Show the output of engines.",
    "stats": "Show requests, errors and times per engine and route.",
    "down": "Stop a stack and remove everything that belongs to it.",
    "agent": "Run health checks for an engine that has none of its own.",
    "images": "Show the containers' images, or build them from this host's executables.",
    "schema": "Print the JSON Schema of a topology, or of what a command prints.",
}
# The module of a verb, where it has another name; the command in it is called <verb>_command.
_HOMES = {
    "init": "topology",
    "fmt": "topology",
    "config": "topology",
    "fingerprint": "diff",
    "preview": "up",
    "reload": "up",
    "ps": "stacks",
    "down": "stacks",
}

EPILOG = "\n\b\nExamples:\n" + "\n".join(
    (
        "  lbgen init shop.yaml",
        "  lbgen check shop.yaml",
        "  lbgen render shop.yaml -e nginx -e haproxy -o out",
        "  lbgen route shop.yaml GET http://shop.example:8080/api/cart -H 'x-canary: true'",
        "  lbgen verify shop.yaml",
        "  lbgen up shop.yaml && lbgen ps && lbgen down",
        "",
        "\b",
        "Exit codes:",
        *(f"  {code}  {meaning}" for code, meaning in exit_codes.MEANING.items()),
        "",
        "\b",
        'Completion: eval "$(_LBGEN_COMPLETE=bash_source lbgen)" (zsh_source, fish_source).',
    )
)


class Verbs(click.Group):
    """A command group that lists its verbs without importing their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        home = import_module(f"lbgen.cli.{_HOMES.get(cmd_name, cmd_name)}")
        return _add_verbosity(getattr(home, f"{cmd_name}_command"))

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb. Its findings are printed here, where what --quiet and --verbose ask for is known."""
        try:
            return super().invoke(ctx)
        except LbgenError as wrong:
            print_findings(wrong.diagnostics)
            raise click.exceptions.Exit(wrong.exit_code) from wrong

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in VERBS and not name.startswith("-"):
            close = get_close_matches(name, VERBS, n=1)
            ctx.fail(f"no such command {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)


@click.command(cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="lbgen")
def group() -> None:
    """Write a load balancer topology once; run it on nginx, HAProxy, Envoy, Traefik or nftables."""


def _internal(bug: Exception) -> str:
    """Describe an unexpected exception in one line, with its place in lbgen's code."""
    frames = [frame for frame in traceback.extract_tb(bug.__traceback__) if "lbgen" in frame.filename]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = " ".join(f"{type(bug).__name__}: {bug}".split())
    return (
        f"internal error{place}: {what[:300]}; this is a bug in lbgen {VERSION}: please report this line with the "
        "command and the topology (LBGEN_DEBUG=1 shows the traceback)"
    )


def main() -> None:
    """Run the console script: turn every expected error into messages and an exit code."""
    gc.disable()  # a short run builds one big tree, and collecting would take more than half of its time
    processes.raise_signals()
    adapt_output()
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as wrong:
        wrong.show()
        code = exit_codes.USAGE
    except (KeyboardInterrupt, click.Abort) as stop:
        click.echo("interrupted", err=True)
        code = getattr(
            stop.__cause__ or stop, "exit_code", exit_codes.INTERRUPTED
        )  # click chains its own exception to ours
    except BrokenPipeError:  # the reader (head, less) went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exit_codes.OK
    except OSError as wrong:
        hint = "free some disk space, or set LBGEN_STATE_DIR" if wrong.errno in (ENOSPC, EDQUOT) else remedy(wrong)
        click.echo(f"lbgen: {wrong.strerror or wrong}: {wrong.filename or ''}".rstrip(": ") + f"; {hint}", err=True)
        code = exit_codes.ENGINE
    except Exception as bug:  # the last resort: a user can do nothing with a traceback
        if os.environ.get("LBGEN_DEBUG"):
            raise
        click.echo(f"lbgen: {_internal(bug)}", err=True)
        code = exit_codes.INTERNAL
    sys.exit(code if isinstance(code, int) else exit_codes.OK)


def _add_verbosity(command: click.Command) -> click.Command:
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
            _add_verbosity(each)
    return command


def _set_level(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        set_verbosity(context, Verbosity(str(parameter.name)))
