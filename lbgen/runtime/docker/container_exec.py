"""Run a command in a running container, and wait until docker has its exit status."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker.models.containers import Container

_LOOK_SECONDS = 0.01
_SECONDS = 5.0  # for the exit status, once the output has ended
UNKNOWN = -1  # docker has no exit status


def run(
    handle: Container,
    argv: Sequence[str],
    *,
    workdir: str | None = None,
    environment: Mapping[str, str] | None = None,
    stderr: bool = True,
) -> tuple[int, bytes]:
    """The exit status (or UNKNOWN) and the output. Raises docker's APIError.

    On a busy host the output may end before docker knows the exit status, and docker's SDK gives None for it.
    """
    api = handle.client.api
    made = api.exec_create(handle.id, list(argv), stderr=stderr, workdir=workdir, environment=dict(environment or {}))
    output: bytes = api.exec_start(made["Id"])
    end = time.monotonic() + _SECONDS
    while (code := api.exec_inspect(made["Id"])["ExitCode"]) is None and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return (UNKNOWN if code is None else int(code)), output
