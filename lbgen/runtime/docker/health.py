"""The health of endpoints, as an engine in a container and its agent report it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lbgen.agent import state_file
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.health import EndpointHealth, Member, combine_health, read_counts, status_engine
from lbgen.runtime.docker import container, container_exec, container_files, desired, helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.labels import Role

if TYPE_CHECKING:
    from lbgen.engines.api import Counts
    from lbgen.runtime.docker.converge import StackContainer


def endpoint_health(
    each: StackContainer, there: tuple[Member, ...], parts: Sequence[StackContainer]
) -> tuple[EndpointHealth, ...]:
    """The health of the endpoints `there`, from the engine and, if there is one, from its agent."""
    name = each.record.engine
    agent: state_file.Conditions = {}
    said = None
    reporter = status_engine(name)
    with suppress(EngineError):  # the container may have ended
        if any((x.record.role, x.record.engine) == (Role.AGENT, name) for x in parts):
            agent = state_file.parse(container_files.read(each.handle, state_file.FILE) or b"")
        if reporter is not None and each.running:
            said = fetch_status(each, parts, reporter.status_paths)
    return combine_health(each.record.title, reporter, there, said, agent, counts(each))


def counts(each: StackContainer) -> Counts | None:
    """The connections that the kernel counted for an engine; None where it counts none."""
    return read_counts(each.record.engine, partial(container.execute, each.handle)) if each.running else None


def fetch_status(
    each: StackContainer, parts: Sequence[StackContainer], paths: Sequence[str]
) -> Mapping[str, str] | None:
    """The texts at `paths` of an engine's admin port, fetched by a container that shares its network namespace; None
    when there is no such container, or no answer. Raises EngineError LB421."""
    ours = (x for x in parts if x.running and x.record.role is not Role.ENGINE)  # these have a Python
    beside = next((x for x in ours if _netns_owner(x) == _netns_owner(each)), None)
    if beside is None:
        return None
    command = [
        helper_image.PYTHON,
        "-m",
        "lbgen.agent.admin_client",
        str(desired.ADMIN_PORT + each.record.side),
        "0",
        *paths,
    ]
    with docker_errors(f"asking {each.name} from {beside.name}"):
        code, output = container_exec.run(
            beside.handle, command, stderr=False, environment=dict(helper_image.ENVIRONMENT)
        )
    try:
        return None if code else json.loads(output)
    except ValueError:  # docker has lost the output
        return None


def _netns_owner(each: StackContainer) -> str:
    """The id of the container whose network namespace it has."""
    mode = str(each.handle.attrs["HostConfig"]["NetworkMode"])
    return mode.removeprefix("container:") if mode.startswith("container:") else str(each.handle.id)
