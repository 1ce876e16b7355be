"""What tests in containers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.daemon import left, with_images

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient


@pytest.fixture(scope="session")
def daemon() -> Iterator[DockerClient]:
    """A client of the daemon, which has an image of every engine."""
    made = with_images()
    yield made
    made.close()


@pytest.fixture
def nothing_left(daemon: DockerClient, request: pytest.FixtureRequest) -> Iterator[None]:
    """At its end a test's stack, which is called as the module's NAME, is taken down, and gone."""
    from lbgen import api
    from lbgen.runtime import registry

    yield
    for each in registry.list_stacks(request.module.NAME):
        api.Stack(each).down()
    assert not left(daemon, request.module.NAME)


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own, whose stacks are taken down at its end. No stacks of containers are seen."""
    from lbgen import api
    from lbgen.runtime import registry

    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.setattr(registry, "may_have_docker", lambda: False)
    yield tmp_path / "state"
    for each in api.ps():
        each.down()
