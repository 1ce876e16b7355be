"""The command that `lbgen init` prints last, run as it is printed, in a folder with a space in its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from typing import TYPE_CHECKING

import pytest

from lbgen import api
from lbgen.spec.starter import starters
from tests.support.sample import sample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engines,
    pytest.mark.xdist_group("runtime"),
    pytest.mark.usefixtures("state_dir"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which the commands call"),
]
POOLS = {
    "minimal": "site",
    "canary": "next",
    "gateway": "orders",
    "tenants": "acme",
    "tls": "app",
    "websocket": "site",
}


@pytest.mark.parametrize("template", sample(starters(), ("l4", "tls")))
def test_the_printed_command_starts_it_and_asks_it(template: str, tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}

    def shell(command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    written = shell(f"lbgen init --template {template} 'my project/topology.yaml'")
    said = shell(written.splitlines()[-1].removeprefix("next: "))
    [stack] = api.ps()
    assert stack.alive
    if template == "l4":
        assert {each.name for each in stack.engines} >= {"haproxy", "nginx"}
    else:
        assert [each.name for each in stack.engines] == ["nginx"]
        assert json.loads(said.splitlines()[-1])["pool"] == POOLS[template]  # the stand-in's answer to curl
