"""keepalived in containers without IPVS in the kernel: what endpoints of direct routing get."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.engines.api import Binary
from lbgen.engines.keepalived import ENGINE
from lbgen.runtime.docker import container, endpoint_rules, helper_image, images, network
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.endpoint_rules import EndpointSide, HostRules
from lbgen.runtime.docker.labels import Record, Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, name_of

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.images import Image

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("keepalived")
ROOT = Path(__file__).parents[2]
DIRECT = ROOT / "tests/golden/topologies/l4-ipvs-direct.yaml"


@pytest.fixture
def image(daemon: DockerClient) -> Image:
    return images.choose(daemon, ENGINE, ENGINE.versions[0], lambda step: None)


def start(daemon: DockerClient, stack: ExitStack, spec: ContainerSpec, joined: str) -> Container:
    made = container.create(daemon, spec, Record(NAME, Role.CHECK, ""), joined)
    stack.callback(container.remove, made)
    container.start(made, spec)
    return made


def test_an_endpoint_in_a_container_gets_the_address_and_tells_nobody(daemon: DockerClient, image: Image) -> None:
    """The script as `up` loads it: /proc/sys is read-only there, and rules keep the endpoint from answering ARP."""
    plan = lbgen.plan(lbgen.load(DIRECT))
    rendered = lbgen.render(plan, engine="keepalived")
    binary = Binary(Path(image.program), ENGINE.versions[0])
    every = {x.host: x for x in ENGINE.process(plan, binary, Path("/")).endpoint_rules}
    network.ensure(daemon, NAME)
    with ExitStack() as stack:
        spec = ContainerSpec(
            f"lbgen-{NAME}-end", images.ensure_helper(daemon, lambda text: None), helper_image.WAIT_ARGV, {}, once=True
        )
        made = start(daemon, stack, spec, network.name(NAME))
        made.reload()
        host = str(made.attrs["NetworkSettings"]["Networks"][network.name(NAME)]["IPAddress"])
        rules = every["10.77.2.11"]
        found = HostRules(host, image.reference, rules.file, rendered[rules.file], rules.setup, rules.teardown)
        side = EndpointSide(NAME, (found,))
        endpoint_rules.load(daemon, side)

        def listed() -> str:
            argv = ("nsenter", "-n", "-t", str(made.attrs["State"]["Pid"]), "sh", "-c")
            asked = (*argv, "ip -o address show dev lo; nft list ruleset")
            return subprocess.run(asked, capture_output=True, text=True, check=True).stdout

        assert " 10.77.2.100/32 " in listed()
        assert "arp daddr ip 10.77.2.100 drop" in listed()
        endpoint_rules.unload(daemon, side)
        assert "10.77.2.100" not in listed()
    network.remove(daemon, NAME)
