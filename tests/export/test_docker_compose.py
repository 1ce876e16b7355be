"""The export for docker compose, run by the commands of its README: reloads under load, and a refused file."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from lbgen.engines.api import engines
from lbgen.runtime.docker import images
from tests.support.daemon import IN_CONTAINERS, first_port, name_of, with_images
from tests.support.engine_lists import L7_ENGINES
from tests.support.exports import MAIN, Moving, commands
from tests.support.stacks import pool_of
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient

_VERSION = ["docker", "compose", "version"]
pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.skipif(
        subprocess.run(_VERSION, capture_output=True, check=False).returncode != 0, reason="no docker compose"
    ),
]
NAME = name_of("moved")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DockerClient]:
    made = with_images()
    yield made
    made.close()


def environment(daemon: DockerClient, engine: str) -> dict[str, str]:
    """With the image of the engine's newest version, for which an export is; skips the test where there is none."""
    [row, *_] = images.list_images(daemon, [engines()[engine]])
    if not row.present:
        pytest.skip(f"no image of {engine} {row.version}")
    return {**os.environ, images.environment_variable(engine): row.reference}


@pytest.mark.parametrize(
    "engine", [pytest.param(x, marks=() if x == "haproxy" else pytest.mark.drill) for x in L7_ENGINES]
)
def test_compose_serves_through_reloads_and_refusals(engine: str, daemon: DockerClient, tmp_path: Path) -> None:
    web = first_port(1_900)
    [network] = daemon.networks.get("bridge").attrs["IPAM"]["Config"]
    here = str(ip_network(network["Subnet"])[1])  # this host, as containers of every network reach it
    moving, env = Moving(NAME, web, here, web + 1, web + 2), environment(daemon, engine)

    def run(script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        argv = ["sh", "-ec", script]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0 or not check, f"{script}\n{done.stdout}{done.stderr}"
        return done

    def changed(prefix: str, after: str) -> str:
        return moving.commands("compose", engine, prefix, tmp_path, after)

    def wait_for_api(path: str, former: str = "/") -> None:
        end = time.monotonic() + 15
        while (pool_of(web, path), pool_of(web, former)) != ("api", "app"):
            assert time.monotonic() < end, run("docker compose logs").stdout
            time.sleep(0.05)

    with moving.endpoints(), ExitStack() as stack:
        apply = changed("/one", "## Apply")
        stack.callback(run, commands((tmp_path / "README.md").read_text(encoding="utf-8"), "## Remove"))
        run(apply)
        wait_for_api("/one")
        clients = stack.enter_context(ExitStack())
        kept, fresh = (clients.enter_context(traffic(web, fresh=each)) for each in (False, True))
        reload = changed("/two", "## Change")
        run(reload)
        wait_for_api("/two", "/one")
        # Images of `lbgen images build` have no cat.
        read = f'while read -r line; do printf %s\\\\n "$line"; done <{MAIN[engine]}'
        shown = f"docker compose exec {NAME} sh -c '{read}'"
        before = run(shown).stdout
        with (tmp_path / NAME / MAIN[engine]).open("a", encoding="utf-8") as file:
            file.write("nonsense {\n")
        refused = run(reload, check=False)
        if engine != "traefik":  # has no checker, and keeps what it has when it cannot read a file
            assert refused.returncode != 0
            assert run(shown).stdout == before
        time.sleep(1)
        assert pool_of(web, "/two") == "api"
        run(changed("/three", "## Change"))
        wait_for_api("/three", "/two")
        time.sleep(1)
        clients.close()
    assert (kept.lost, fresh.lost) == ([], [])
    assert min(kept.good, fresh.good) > 50
