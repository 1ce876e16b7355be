"""What tests in containers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.daemon import left, with_images

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    yield
    for each in api.ps():
        if each.name == request.module.NAME:
            each.down()
    assert not left(daemon, request.module.NAME)
