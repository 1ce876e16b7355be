"""Images from this host's executables run in containers without rights. Skipped where no docker daemon answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.engines.api import engines
from lbgen.runtime.docker import client, images, own
from lbgen.runtime.local.binaries import candidates

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not client.answers(), reason="no docker daemon answers")]


@pytest.fixture(scope="module")
def daemon() -> DockerClient:
    return client.connect()


def run(daemon: DockerClient, image: str, *argv: str) -> str:
    output = daemon.containers.run(
        image,
        list(argv),
        remove=True,
        stderr=True,
        user="65534",
        read_only=True,
        cap_drop=["ALL"],
        network_mode="none",
        security_opt=["no-new-privileges"],
    )
    return output.decode()


@pytest.mark.parametrize("name", list(engines()))
def test_every_executable_here_runs_as_an_image(daemon: DockerClient, name: str) -> None:
    engine = engines()[name]
    if not candidates(engine):
        pytest.skip(f"no executable of {name} here")
    made, failed = images.build(daemon, (engine,), lambda text: None)
    assert made
    assert not failed
    for each in made:
        hint = engine.binaries[0]
        assert each.version in run(daemon, each.reference, f"{images.PROGRAMS}/{hint.command}", *hint.version_argv)
    for row in images.table(daemon, (engine,)):
        if row.origin == "built":
            chosen = images.choose(daemon, engine, row.version, lambda text: None)
            assert chosen.version is not None
            assert chosen.version.startswith(row.version)


def test_our_own_image_runs_lbgen(daemon: DockerClient) -> None:
    said: list[str] = []
    image = images.helper(daemon, said.append)
    code = (
        f"import sys; sys.path.insert(0, {own.SITE!r}); import lbgen.runtime.endpoints, lbgen.agent.run; print('fine')"
    )
    assert "fine" in run(daemon, image, own.PYTHON, "-I", "-c", code)
    assert images.helper(daemon, said.append) == image
    assert len(said) <= 1
