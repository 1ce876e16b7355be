"""Options that the commands on stacks share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

import click

F = TypeVar("F", bound="Callable[..., object]")


def dry_run(command: F) -> F:
    """Add the option --dry-run."""
    return click.option(
        "--dry-run", is_flag=True, help="Do nothing; print what would be done, as `lbgen preview` does."
    )(command)


def runtime(command: F) -> F:
    """Add the option --runtime."""
    return click.option(
        "--runtime",
        type=click.Choice(["docker", "local"]),
        help="docker: containers (see lbgen images), the default when a daemon answers; "
        "local: unprivileged processes from PATH or lbgen[engines].",
    )(command)


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
