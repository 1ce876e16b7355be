"""A topology with certificates by relative paths, named by a relative path, in containers: from any directory."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.common import certificates
from lbgen.runtime.common.ports import free_port
from tests.support.daemon import IN_CONTAINERS, first_port, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("relative")
PORTS = first_port(1_170)


def shows(port: int, name: str) -> bool:
    """Whether a client that asks for `name` is shown a certificate for it; others are refused."""
    context = ssl.create_default_context(cafile=str(certificates.temporary_certificates() / "ca.crt"))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=name),
        ):
            return True
    except ssl.SSLError:
        return False


@pytest.mark.drill
def test_relative_files_from_any_directory(daemon: DockerClient, tmp_path: Path) -> None:
    port = free_port("127.0.0.1", PORTS)
    home, other = tmp_path / "site", tmp_path / "other"
    for folder in (home / "certs", other):
        folder.mkdir(parents=True)
    pair = {"cert": "certs/shop.crt", "key": "certs/shop.key"}
    data = {
        "version": 1,
        "name": NAME,
        "listeners": {"web": {"port": port, "tls": {"certificates": [pair]}}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "app"}],
    }
    (home / "t.yaml").write_text(json.dumps(data))

    def lbgen(verb: str, path: str, folder: Path, *options: str) -> None:
        argv = [sys.executable, "-m", "lbgen", verb, path, *options]
        done = subprocess.run(argv, cwd=folder, env={**os.environ}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def use(name: str) -> None:
        for end in ("crt", "key"):
            text = (certificates.temporary_certificates() / f"{name}.{end}").read_bytes()
            (home / "certs" / f"shop.{end}").write_bytes(text)

    use("shop")
    lbgen("up", "t.yaml", home, "-e", "haproxy", "--runtime", "docker", "--accept", "all")
    assert (shows(port, "shop.example"), shows(port, "api.example")) == (True, False)
    use("api")
    lbgen("reload", "../site/t.yaml", other)
    assert (shows(port, "shop.example"), shows(port, "api.example")) == (False, True)
    use("shop")
    lbgen("up", "site/t.yaml", tmp_path, "-e", "haproxy", "--accept", "all")
    assert (shows(port, "shop.example"), shows(port, "api.example")) == (True, False)
