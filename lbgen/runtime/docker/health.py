"""An engine's container and those beside it -> how the engine finds its endpoints."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from lbgen.agent import state_file
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.health import healths, watched
from lbgen.runtime.docker import container, desired, helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.labels import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.runtime.common.health import EndpointHealth, Member
    from lbgen.runtime.docker.converge import StackContainer


def endpoint_health(
    each: StackContainer, there: tuple[Member, ...], parts: Sequence[StackContainer]
) -> tuple[EndpointHealth, ...]:
    """What it says of `there`, its endpoints, and what the agent beside it found, if there is one."""
    name = each.record.engine
    agent: state_file.Conditions = {}
    said = None
    teller = watched(name)
    with suppress(EngineError):  # it went away meanwhile
        if any((x.record.role, x.record.engine) == (Role.AGENT, name) for x in parts):
            agent = state_file.parse(container.read(each.handle, state_file.FILE) or b"")
        if teller is not None and each.running:
            said = fetch_status(each, parts, teller.tells)
    return healths(each.record.title, teller, there, said, agent)


def fetch_status(
    each: StackContainer, parts: Sequence[StackContainer], paths: Sequence[str]
) -> Mapping[str, str] | None:
    """What an engine's admin port says now, asked by a container of ours that shares its network; None when nobody is
    there to ask, or it does not answer. Raises EngineError LB421."""
    ours = (x for x in parts if x.running and x.record.role is not Role.ENGINE)  # there is a Python in those
    beside = next((x for x in ours if _netns_owner(x) == _netns_owner(each)), None)
    if beside is None:
        return None
    command = [
        helper_image.PYTHON,
        "-m",
        "lbgen.runtime.common.admin_client",
        str(desired.ADMIN_PORT + each.record.side),
        "0",
        *paths,
    ]
    with docker_errors(f"asking {each.name} from {beside.name}"):
        done = beside.handle.exec_run(command, stderr=False, environment=dict(helper_image.ENVIRONMENT))
    return None if done.exit_code else json.loads(done.output)


def _netns_owner(each: StackContainer) -> str:
    """The container whose network it has."""
    mode = str(each.handle.attrs["HostConfig"]["NetworkMode"])
    return mode.removeprefix("container:") if mode.startswith("container:") else str(each.handle.id)
