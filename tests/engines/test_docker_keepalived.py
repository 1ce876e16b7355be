"""keepalived in containers without IPVS in the kernel: its checker, VRRP, and what endpoints of direct routing get."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.engines.api import Binary
from lbgen.engines.keepalived import ENGINE
from lbgen.runtime.docker import container, endpoint_rules, helper_image, images, network
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import File
from lbgen.runtime.docker.endpoint_rules import EndpointSide, HostRules
from lbgen.runtime.docker.labels import Record, Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.images import Image

pytestmark = [*IN_CONTAINERS, AS_ROOT, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("keepalived")
ROOT = Path(__file__).parents[2]
GOLDEN = sorted(path.parent for path in (ROOT / "tests/golden").rglob("keepalived.conf"))
DIRECT = ROOT / "tests/golden/topologies/l4-ipvs-direct.yaml"


@pytest.fixture
def image(daemon: DockerClient) -> Image:
    return images.choose(daemon, ENGINE, ENGINE.versions[0], lambda step: None)


def start(daemon: DockerClient, stack: ExitStack, spec: ContainerSpec, joined: str) -> Container:
    made = container.create(daemon, spec, Record(NAME, Role.CHECK, ""), joined)
    stack.callback(container.remove, made)
    container.start(made, spec)
    return made


def execute(there: Container, command: str) -> str:
    return str(there.exec_run(("/bin/sh", "-c", command)).output.decode())


def files(folder: Path) -> dict[str, File]:
    return {"keepalived.conf": File((folder / "keepalived.conf").read_bytes())}


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: path.parent.name)
def test_its_checker_accepts_every_golden_file(folder: Path, daemon: DockerClient, image: Image) -> None:
    """Direct routing, IPv6 and VRRP among them; `eth0` of VRRP is the container's."""
    network.ensure(daemon, NAME)
    argv = (image.program, "--config-test", "--use-file", "keepalived.conf")
    with ExitStack() as stack:
        spec = ContainerSpec(f"lbgen-{NAME}-check", image.reference, argv, files(folder), once=True)
        made = start(daemon, stack, spec, network.name(NAME))
        assert (made.wait(timeout=20)["StatusCode"], container.tail(made)) == (0, "")
    network.remove(daemon, NAME)


def test_a_second_balancer_takes_the_floating_address_over(daemon: DockerClient, image: Image) -> None:
    """VRRP of the rendered file in two containers; IPVS is left out (`--vrrp`)."""
    network.ensure(daemon, NAME)
    argv = (image.program, "--vrrp", "--dont-fork", "--log-console", "--use-file", "keepalived.conf")
    argv = (*argv, "--pid", "keepalived.pid", "--vrrp_pid", "vrrp.pid")

    def has_address(there: Container) -> bool:
        return " 10.77.2.100/32 " in execute(there, "ip -4 -o address show dev eth0")

    with ExitStack() as stack:
        made = []
        for number in range(2):
            spec = ContainerSpec(
                f"lbgen-{NAME}-{number}",
                image.reference,
                argv,
                files(ROOT / "tests/golden/l4-ipvs-direct/keepalived"),
                capabilities=("NET_ADMIN", "NET_RAW", "DAC_OVERRIDE"),
                once=True,
            )
            made.append(start(daemon, stack, spec, network.name(NAME)))
        wait_until(lambda: sum(map(has_address, made)) == 1, 15)
        first = next(x for x in made if has_address(x))
        [second] = [x for x in made if x is not first]
        first.stop(timeout=5)
        wait_until(lambda: has_address(second), 15)
    network.remove(daemon, NAME)


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
