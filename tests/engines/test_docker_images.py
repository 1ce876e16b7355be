"""Images from this host's executables run in containers without rights. Skipped where no docker daemon answers."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import jsonschema
import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.cli.schema import schema_of
from lbgen.engines.api import engines, local_engines
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.docker import client, helper_image, images
from lbgen.runtime.docker.helper_image import ImageArchive
from tests.support.daemon import IN_CONTAINERS
from tests.support.sample import sample

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [*IN_CONTAINERS]


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


@pytest.mark.parametrize("name", sample(local_engines(), ("haproxy", "nginx")))
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
    for row in images.list_images(daemon, (engine,)):
        if row.origin == "built":
            chosen = images.choose(daemon, engine, row.version, lambda text: None)
            assert chosen.version is not None
            assert chosen.version.startswith(row.version)


def test_our_own_image_runs_lbgen(daemon: DockerClient) -> None:
    said: list[str] = []
    image = images.ensure_helper(daemon, said.append)
    path = f"import sys; sys.path.insert(0, {helper_image.SITE!r})"
    code = f"{path}; import lbgen.runtime.standins.server, lbgen.agent.run; print('fine')"
    assert "fine" in run(daemon, image, helper_image.PYTHON, "-I", "-c", code)
    assert images.ensure_helper(daemon, said.append) == image
    assert len(said) <= 1


def test_old_images_of_ours_go(daemon: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that a container was made of, and never what lacks our label."""
    repository = f"lbgen-test-{os.getpid()}"
    monkeypatch.setattr(images, "REPOSITORY", repository)
    monkeypatch.setattr(helper_image, "build_archive", ImageArchive.empty)
    used = None
    try:
        daemon.api.import_image_from_data(ImageArchive.empty().tar(), repository=f"{repository}/helper", tag="theirs")
        for number in range(7):
            monkeypatch.setattr(helper_image, "tag", lambda number=number: f"t{number}")
            reference = images.ensure_helper(daemon, lambda text: None)
            used = used or daemon.containers.create(reference, ["x"])
        tags = {tag.rpartition(":")[2] for image in daemon.images.list(f"{repository}/helper") for tag in image.tags}
        assert tags == {"theirs", "t0", "t3", "t4", "t5", "t6"}
        before = daemon.images.get(f"{repository}/helper:t6").id
        images._load(daemon, f"{repository}/helper", "t6", ImageArchive.empty().tar(), "again")  # its tag moves on
        assert before not in {image.id for image in daemon.images.list(all=True)}
    finally:
        if used is not None:
            used.remove()
        for image in daemon.images.list(f"{repository}/helper"):
            daemon.images.remove(image.id, force=True)


def test_the_json_about_images_fits_its_schema(daemon: DockerClient) -> None:
    commands = {"images": ["images", "--json"], "images build": ["images", "build", "-e", "nftables", "--json"]}
    for command, words in commands.items():
        done = CliRunner().invoke(group, words)
        assert done.exit_code == 0, done.output
        jsonschema.validate(json.loads(done.stdout), schema_of(command))
