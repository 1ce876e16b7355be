"""An engine's container and those beside it -> how the engine finds its endpoints."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from lbgen.agent import state
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.health import healths, watched
from lbgen.runtime.docker import container, own, wanted
from lbgen.runtime.docker.client import told
from lbgen.runtime.docker.labels import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.runtime.common.health import EndpointHealth, Member
    from lbgen.runtime.docker.converge import Found


def found(each: Found, there: tuple[Member, ...], parts: Sequence[Found]) -> tuple[EndpointHealth, ...]:
    """What it says of `there`, its endpoints, and what the agent beside it found, if there is one."""
    name = each.record.engine
    agent: state.Conditions = {}
    said = None
    teller = watched(name)
    with suppress(EngineError):  # it went away meanwhile
        if any((x.record.role, x.record.engine) == (Role.AGENT, name) for x in parts):
            agent = state.parse(container.read(each.made, state.FILE) or b"")
        if teller is not None and each.running:
            said = asked(each, parts, teller.tells)
    return healths(each.record.title, teller, there, said, agent)


def asked(each: Found, parts: Sequence[Found], paths: Sequence[str]) -> Mapping[str, str] | None:
    """What an engine's admin port says now, asked by a container of ours that shares its network; None when nobody is
    there to ask, or it does not answer. Raises EngineError LB421."""
    ours = (x for x in parts if x.running and x.record.role is not Role.ENGINE)  # there is a Python in those
    beside = next((x for x in ours if _network(x) == _network(each)), None)
    if beside is None:
        return None
    port = str(wanted.ADMIN_PORT + each.record.side)
    command = [own.PYTHON, "-m", "lbgen.runtime.common.admin_client", port, "0", *paths]
    with told(f"asking {each.name} from {beside.name}"):
        done = beside.made.exec_run(command, stderr=False, environment=dict(own.ENVIRONMENT))
    return None if done.exit_code else json.loads(done.output)


def _network(each: Found) -> str:
    """The container whose network it has."""
    mode = str(each.made.attrs["HostConfig"]["NetworkMode"])
    return mode.removeprefix("container:") if mode.startswith("container:") else str(each.made.id)
