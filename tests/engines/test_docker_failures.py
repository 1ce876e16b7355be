"""What can be wrong with images, ports, memory and disks: one message with the remedy, and nothing left behind."""

from __future__ import annotations

import io
import os
import re
import socket
import struct
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import images, labels
from tests.support.daemon import IN_CONTAINERS, first_port, left, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient

pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("failing")
ODD = f"lbgen-odd-{os.getpid()}"
PORTS = first_port(900)
ARM = (
    b"\x7fELF\x02\x01\x01"
    + bytes(9)
    + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0x400000, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 4096, 4096, 4096)
    + bytes(4096)
)


@pytest.fixture(scope="module", autouse=True)
def odd_images(daemon: DockerClient) -> Iterator[None]:
    yield
    for image in daemon.images.list(ODD):
        daemon.images.remove(image.tags[0])


def failed(daemon: DockerClient, name: str, port: int, **given: Any) -> EngineError:
    """What `up` says; it leaves nothing."""
    data = {
        "version": 1,
        "name": NAME,
        "listeners": {"web": {"port": port}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "app"}],
        **given,
    }
    with pytest.raises(EngineError) as raised:
        lbgen.up(lbgen.load(data), [name], runtime="docker", accept=("all",))
    assert not left(daemon, NAME)
    assert not labels.saved_folder(NAME).exists()
    assert len(raised.value.diagnostics) == 1
    assert raised.value.exit_code == 3
    return raised.value


def odd(daemon: DockerClient, tag: str, program: bytes, base: str = "") -> str:
    """An image with `program` in the place of HAProxy."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("etc/lbgen")
        folder.type, folder.mode, folder.uid = tarfile.DIRTYPE, 0o755, 65534
        entry = tarfile.TarInfo("usr/local/sbin/haproxy")
        entry.size, entry.mode = len(program), 0o755
        archive.addfile(folder)
        archive.addfile(entry, io.BytesIO(program))
    if not base:
        daemon.api.import_image_from_data(buffer.getvalue(), repository=ODD, tag=tag)
        return f"{ODD}:{tag}"
    made = daemon.containers.create(base, ["x"])
    made.put_archive("/", buffer.getvalue())
    made.commit(ODD, tag)
    made.remove()
    return f"{ODD}:{tag}"


def test_a_port_that_another_process_has(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    with socket.create_server(("127.0.0.1", port)):
        said = str(failed(daemon, "haproxy", port))
    owner = rf"\S+ \(pid {os.getpid()}\)"
    where = r"error LB404 listeners\.web\.port"
    assert re.search(rf"{where}: lbgen-{NAME}-ports cannot publish 127.0.0.1:{port}: {owner} has it; stop what", said)


def an_image(daemon: DockerClient) -> images.ImageRow:
    """The small one of rules in the kernel."""
    return next(x for x in images.list_images(daemon) if x.engine == "nftables" and x.present)


def test_a_port_that_another_container_has(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS)
    row = an_image(daemon)
    other = daemon.containers.run(
        row.reference, ["sleep", "60"], detach=True, name=f"{ODD}-holder", ports={"80/tcp": ("127.0.0.1", port)}
    )
    try:
        said = str(failed(daemon, "haproxy", port))
    finally:
        other.remove(force=True)
    assert f"cannot publish 127.0.0.1:{port}: the container {ODD}-holder has it" in said


def test_an_image_that_is_nowhere(daemon: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBGEN_HAPROXY_IMAGE", "127.0.0.1:9/nobody/haproxy:2.8.1")
    said = str(failed(daemon, "haproxy", PORTS))
    assert "LB422: the image 127.0.0.1:9/nobody/haproxy:2.8.1 cannot be pulled: " in said
    assert "; LBGEN_HAPROXY_IMAGE names it: docker load it, name another one, or unset LBGEN_HAPROXY_IMAGE" in said


@pytest.mark.drill
def test_an_image_of_another_engine(daemon: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    image = an_image(daemon).reference
    monkeypatch.setenv("LBGEN_HAPROXY_IMAGE", image)
    said = str(failed(daemon, "haproxy", free_port("127.0.0.1", PORTS)))
    assert f"LB422: the image {image} is without /usr/local/sbin/haproxy; is it of this engine?" in said


def test_an_image_for_another_processor(daemon: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    image = odd(daemon, "arm", ARM)
    monkeypatch.setenv("LBGEN_HAPROXY_IMAGE", image)
    said = str(failed(daemon, "haproxy", free_port("127.0.0.1", PORTS)))
    assert f"the image {image} is made for another processor" in said


def test_one_that_dies_at_its_start_says_its_last_lines(daemon: DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    base = an_image(daemon).reference
    monkeypatch.setenv("LBGEN_HAPROXY_IMAGE", odd(daemon, "dies", b"#!/bin/sh\necho the last line; exit 7\n", base))
    said = str(failed(daemon, "haproxy", free_port("127.0.0.1", PORTS)))
    assert re.search(r"LB403: HAProxy ended .*while starting.*; it said:\n  the last line", said), said


@pytest.mark.drill
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_our_own_disk_is_full(daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "lbgen-test", str(tmp_path)], check=True)
    try:
        (tmp_path / "fill").write_bytes(bytes(16384))
        monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
        said = str(failed(daemon, "haproxy", free_port("127.0.0.1", PORTS)))
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert f"LB408: {tmp_path}/id: No space left on device; free some space there" in said


@pytest.mark.drill
def test_a_port_that_another_stack_has(daemon: DockerClient, tmp_path: Path) -> None:
    port = free_port("127.0.0.1", PORTS)
    text = (
        "version: 1\nname: NAME\nlisteners:\n  web:\n    port: PORT\n"
        'pools: { app: { endpoints: [{ address: "10.9.0.1:80" }] } }\nroutes: [{ name: all, forward: app }]\n'
    ).replace("PORT", str(port))
    other = f"{NAME}-other"
    for name in (NAME, other):
        (tmp_path / f"{name}.yaml").write_text(text.replace("NAME", name))
    with lbgen.up(lbgen.load(tmp_path / f"{other}.yaml"), ["haproxy"], runtime="docker", accept=("all",)):
        with pytest.raises(EngineError) as raised:
            lbgen.up(lbgen.load(tmp_path / f"{NAME}.yaml"), ["haproxy"], runtime="docker", accept=("all",))
        [finding] = raised.value.diagnostics
        assert f"{NAME}.yaml:5:11: error LB404 listeners.web.port: lbgen-{NAME}-ports cannot publish" in str(finding)
        assert f"that is HAProxy of the stack {other}" in finding.message
        assert finding.hint == f"`lbgen down {other}`, or choose another port"
    assert not left(daemon, other)
