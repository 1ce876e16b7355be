"""Guarded routes, pages and values in containers, as they are tried as processes. Needs a docker daemon."""

from __future__ import annotations

import io
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.docker import client
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.helper_image import USER, WORK
from tests.engines import test_guarded_stacks
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.sample import sample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("guarded")
PORT = first_port(1_880)
BRIDGE = "172.17.0.1"  # docker's own, which containers of any network reach


@pytest.mark.parametrize("engine", sample(test_guarded_stacks.ENGINES, ("haproxy",)))
def test_changes_of_users_keys_and_pages_are_loaded(engine: str, tmp_path: Path) -> None:
    for _ in test_guarded_stacks.play(tmp_path, NAME, engine, PORT, BRIDGE, "docker"):
        [container] = [x.handle for x in list_containers(client.connect(), NAME) if x.record.engine == engine]
        parts, _ = container.get_archive(WORK)
        known = test_guarded_stacks.hash_of(engine, "one").encode()
        secret = []
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
            for member in tar.getmembers():
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None and known in file.read():
                    secret.append(member)
        assert secret
        assert {(stat.S_IMODE(member.mode), member.uid) for member in secret} == {(0o400, USER)}
