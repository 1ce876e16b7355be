"""`lbgen preview` of stacks of containers, compared with what `up` then does, over kinds of change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.runtime.common.driver import Action, PartKind
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker.client import connect
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.changes import CHANGES, Part, base, walk
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample

if TYPE_CHECKING:
    from lbgen.api import Stack
    from tests.support.changes import Parts

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("preview")
PORTS = first_port(1_180)
KINDS = {Role.ENGINE: PartKind.ENGINE, Role.ENDPOINTS: PartKind.STAND_INS, Role.AGENT: PartKind.AGENT}
ENGINES = ("haproxy", "nginx", "envoy", "traefik")
SAMPLE = {"haproxy": ("nothing", "route.respond", "pool.endpoint.new", "containers.memory", "listener.port")}


def parts(stack: Stack) -> Parts:
    """What runs of a stack of containers."""
    return {
        (KINDS[each.record.role], each.record.engine): Part(str(each.handle.id), each.record.hash)
        for each in list_containers(connect(), stack.name)
        if each.record.role in KINDS
    }


@pytest.mark.parametrize("name", sample(ENGINES, SAMPLE))
def test_up_does_what_the_preview_says(name: str, every: bool) -> None:
    kinds = tuple(CHANGES) if every else SAMPLE[name]
    port = free_port("127.0.0.1", PORTS)
    topology = base(NAME, port)
    lbgen.up(lbgen.load(topology), engine=name, runtime="docker", accept=("all",))
    taken, served = walk(topology, kinds, name, "docker", port, parts)
    assert served >= 0.7 * len(kinds)
    if name == "haproxy":
        assert taken >= {Action.NONE, Action.RELOAD, Action.REPLACE, Action.INTERRUPT}
