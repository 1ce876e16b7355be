"""The docker daemon: reached or said why not, and its errors as one clear message."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

OLDEST_API = (1, 41)  # Docker 20.10: what this is tested with
_SECONDS = 60


def connect() -> DockerClient:
    """A client of the daemon that DOCKER_HOST or the default socket names.

    Raises EngineError LB420: the SDK is missing, no daemon answers, no right to ask it, or it is too old.
    """
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as missing:
        hint = "pip install 'lbgen[docker]', or use --runtime local"
        raise EngineError(Diagnostic("LB420", "the docker SDK for Python is not installed", hint=hint)) from missing
    try:
        client: DockerClient = docker.from_env(version="auto", timeout=_SECONDS)
        version = client.version()
    except (DockerException, OSError) as error:
        raise EngineError(_unreachable(error)) from error
    spoken = tuple(int(part) for part in str(version.get("ApiVersion", "0.0")).split("."))
    if spoken < OLDEST_API:
        message = f"the docker daemon is {version.get('Version')}; lbgen needs 20.10 or newer"
        raise EngineError(Diagnostic("LB420", message, hint="update docker, or use --runtime local"))
    return client


def answers() -> bool:
    """Whether a daemon that is new enough answers."""
    try:
        connect().close()
    except EngineError:
        return False
    return True


def _unreachable(error: Exception) -> Diagnostic:
    where = os.environ.get("DOCKER_HOST") or "the default socket"
    text = str(error)
    if "Permission denied" in text:
        hint = "add yourself to the group docker (and log in again), run as root, or use --runtime local"
        return Diagnostic("LB420", f"no right to talk to the docker daemon at {where}", hint=hint)
    hint = "start it (systemctl start docker), set DOCKER_HOST, or use --runtime local"
    return Diagnostic("LB420", f"no docker daemon answers at {where}", hint=hint)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Errors of the daemon inside become EngineError LB421, `what` being what was tried."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise EngineError(Diagnostic("LB421", f"{what}: {error.explanation or error}", hint=_remedy(error))) from error
    except (DockerException, RequestException) as error:
        raise EngineError(Diagnostic("LB421", f"{what}: the docker daemon went away ({error})")) from error


def _remedy(error: Exception) -> str:
    text = str(error)
    if "no space left" in text:
        return "free some disk space: docker system df, docker system prune"
    if "port is already allocated" in text or "address already in use" in text:
        return "something else listens there: change the listener's port, or stop it"
    return ""
