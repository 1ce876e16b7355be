"""Services of compose.yaml as docker runs them, where there is no docker compose: who reads secrets, and a reload."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import lbgen
from lbgen.runtime.docker.helper_image import USER
from tests.engines import test_guarded_stacks
from tests.engines.test_docker_guarded import BRIDGE
from tests.export.test_docker_compose import environment
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, first_port, name_of, with_images
from tests.support.exports import commands
from tests.support.sample import sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient
    from docker.models.containers import Container

pytestmark = [*IN_CONTAINERS, AS_ROOT]  # only root can give the secrets to the user of the containers
NAME = name_of("service")
PORT = first_port(1_890)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DockerClient]:
    made = with_images()
    yield made
    made.close()


@contextmanager
def running(daemon: DockerClient, folder: Path, name: str, env: dict[str, str]) -> Iterator[Container]:
    """A service of the folder's compose.yaml."""
    service: dict[str, Any] = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"][name]
    same = ("entrypoint", "working_dir", "user", "read_only", "cap_drop", "stop_signal", "security_opt", "pids_limit")
    variable = re.match(r"\$\{(\w+)", service["image"])
    assert variable is not None
    mounts = {str(folder / each["source"]): {"bind": each["target"], "mode": "ro"} for each in service["volumes"]}
    ports = {}
    for each in service["ports"]:
        address, port, inside = each.rsplit(":", 2)
        ports[inside] = (address, int(port))
    container = daemon.containers.run(
        env[variable[1]],
        detach=True,
        name=name,
        mem_limit=str(service["mem_limit"]),
        tmpfs=dict(each.split(":", 1) for each in service["tmpfs"]),
        volumes=mounts,
        ports=ports,
        environment=service.get("environment", {}),
        **{key: service[key] for key in same},
    )
    try:
        yield container
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("engine", sample(test_guarded_stacks.ENGINES, ("haproxy",)))
def test_a_service_reads_its_secrets_and_takes_others(engine: str, daemon: DockerClient, tmp_path: Path) -> None:
    env, out = environment(daemon, engine), tmp_path / "out"
    with test_guarded_stacks.service(BRIDGE) as port:
        file = tmp_path / "guarded.yaml"
        file.write_text(json.dumps(test_guarded_stacks.topology(NAME, engine, PORT, BRIDGE, port)))

        def export(password: str, page: str) -> str:
            """The README."""
            test_guarded_stacks.write(tmp_path, engine, password, page)
            found = lbgen.export(lbgen.load(str(file)), "compose", engine=engine, accept=("all",))
            found.write(out)
            for line in commands(found.files["README.md"], "password hashes").split()[3:]:  # sudo chown USER FILE ...
                os.chown(out / line, USER, USER)
            return found.files["README.md"]

        export("one", "first\n")
        with running(daemon, out, NAME, env) as container:

            def said() -> str:
                return str(container.logs(tail=20).decode())

            def serves(page: bytes) -> bool:
                try:
                    return test_guarded_stacks.ask(PORT, "/none") == (404, page)
                except OSError:
                    return False

            test_guarded_stacks.wait_for(lambda: serves(b"first\n"), said)
            test_guarded_stacks.check_guards(PORT, engine)
            reload = commands(export("two", "second\n"), "## Change")
            script = reload.partition("sh -c '")[2].rpartition("'")[0]
            done = container.exec_run(["sh", "-c", script])
            assert done.exit_code == 0, done.output
            test_guarded_stacks.wait_for(lambda: serves(b"second\n"), said)
            test_guarded_stacks.check_guards(PORT, engine, "two")
            for user, refused in ((USER, False), (12_345, True)):
                names = "for f in *.cfg */* *; do [ -f $f ] && while read -r l; do echo $l; done <$f; done"
                read = container.exec_run(["sh", "-c", names], user=str(user), workdir="/run/lbgen")
                assert (test_guarded_stacks.hash_of(engine, "two").encode() not in read.output) is refused
