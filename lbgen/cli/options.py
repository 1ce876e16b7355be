"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

import click

from lbgen.cli import values

F = TypeVar("F", bound="Callable[..., object]")


def engines(command: F) -> F:
    """Add the option -e/--engine, repeatable."""
    return click.option(
        "-e", "--engine", "chosen", type=values.EngineName(), multiple=True, help="Only this engine (repeatable)."
    )(command)


def accept(command: F) -> F:
    """Add the option --accept, repeatable."""
    return click.option(
        "--accept",
        multiple=True,
        type=values.FeatureNames(),
        callback=lambda context, parameter, lists: tuple(word for words in lists for word in words),
        help="Accept these features, separated by commas, where an engine only approximates them; `all` accepts every "
        "one (repeatable).",
    )(command)


def html(command: F) -> F:
    """Add the option --html."""
    return click.option(
        "--html",
        type=values.PageFile(),
        metavar="FILE",
        help="Also write a page that shows the verdicts and leads from each rendered line to the topology; it needs no "
        "network. `-` prints the page and nothing else.",
    )(command)


def json_flag(command: F) -> F:
    """Add the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)


def dry_run(command: F) -> F:
    """Add the option --dry-run."""
    return click.option(
        "--dry-run", is_flag=True, help="Do nothing; print what would be done, as `lbgen preview` does."
    )(command)


def runtime(command: F) -> F:
    """Add the option --runtime."""
    return click.option(
        "--runtime",
        type=click.Choice(["docker", "local", "swarm", "kubernetes"]),
        help="docker: containers (see lbgen images), the default when a daemon answers; "
        "local: unprivileged processes from PATH or lbgen[engines]; swarm, kubernetes: what docker or kubectl is set "
        "to use, with the topology's own endpoints (see docs/deploy.md).",
    )(command)


def namespace(command: F) -> F:
    """Add the option --namespace."""
    return click.option("--namespace", help="Kubernetes: where it runs.  [default: default]")(command)


def real_endpoints(command: F) -> F:
    """Add the option --real-endpoints, under its old name as well."""

    @click.option("--real-endpoints", is_flag=True, help="Forward to the pools' own endpoints instead of stand-ins.")
    @click.option("--no-backends", "old_name", is_flag=True, hidden=True)
    @wraps(command)
    def with_either(*, real_endpoints: bool, old_name: bool, **rest: object) -> object:
        return command(real_endpoints=real_endpoints or old_name, **rest)

    return cast("F", with_either)


def replicas(command: F) -> F:
    """Add the option --replicas, repeatable."""
    return click.option(
        "--replicas",
        multiple=True,
        metavar="[TIER=]N",
        help="The number of replicas of a tier, instead of the topology's (repeatable). A running stack loses no "
        "request.",
    )(command)
