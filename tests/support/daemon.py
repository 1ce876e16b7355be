"""The docker daemon for tests: who needs it, its images, nothing of a test left on it; a proxy to it that can fail."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.engines.api import local_engines
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.docker import client, images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

    from lbgen.engines.api import Engine

REAL = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
IN_CONTAINERS = (
    pytest.mark.engines,
    pytest.mark.skipif(client.why_unavailable() is not None, reason="no docker daemon answers"),
)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can enter a container, or kill what is not its own")
KINDS = ("containers", "volumes", "networks")


def with_images() -> DockerClient:
    """A client of the daemon, which has all images that can be made here; of several workers one makes them."""
    made = client.connect()
    with (Path(tempfile.gettempdir()) / f"lbgen-test-images-{os.geteuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing := _without_images(made):
            images.build(made, missing, lambda text: None)
        images.ensure_helper(made, lambda text: None)
    return made


def _without_images(daemon: DockerClient) -> tuple[Engine, ...]:
    """The engines with an executable here, of a supported version, that has no image yet."""
    lacking = [(row.engine, row.version) for row in images.list_images(daemon) if not row.present]
    return tuple(
        engine
        for engine in local_engines().values()
        if any((engine.name, x.version.rpartition(".")[0]) in lacking for x in candidates(engine))
    )


def name_of(what: str) -> str:
    """Of a module's stack, so that two runs of the tests may go on at once."""
    return f"{what}-{os.getpid()}"


def first_port(offset: int) -> int:
    """From where a module takes its ports, below the ephemeral ones; `offset` is below 2,000 (tests/conftest.py)."""
    return int(os.environ.get("LBGEN_DOCKER_PORTS", "10600")) + offset


def single(name: str, port: int, mode: str = "l7", **pool: Any) -> lbgen.Topology:
    """A stack whose only listener leads to two endpoints."""
    return lbgen.load(
        {
            "version": 1,
            "name": name,
            "listeners": {"web": {"port": port, "mode": mode}},
            "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}], **pool}},
            "routes": [{"name": "all", "forward": "app", **({"listeners": ["web"]} if mode == "l4" else {})}],
        }
    )


def left(daemon: DockerClient, stack: str) -> list[str]:
    """What there is of a stack."""
    label = {"label": f"io.lbgen.stack={stack}"}
    found = {
        "containers": daemon.containers.list(all=True, filters=label, sparse=True),
        "volumes": daemon.volumes.list(filters=label),
        "networks": daemon.networks.list(filters=label),
    }
    return [f"{kind}: {each.name or each.id}" for kind in KINDS for each in found[kind]]


@dataclass(slots=True)
class DaemonProxy:
    """A socket before the daemon's. `said` are the requests that came; `meet` sees each one with its number (from 1)
    and may answer it itself (status and message), or raise ConnectionError: the daemon is gone, for good."""

    path: str
    meet: Callable[[int, str], tuple[int, str] | None] = lambda number, request: None
    said: list[str] = field(default_factory=list)
    gone: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        return f"unix://{self.path}"

    def serve(self, client: socket.socket) -> None:
        """One request; the connection ends with its answer."""
        with client, suppress(OSError), client.makefile("rb") as reader:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = reader.readline()
                if not line:
                    return
                head += line
            first = head.decode().splitlines()[0].removesuffix(" HTTP/1.1")
            with self._lock:
                if self.gone:
                    return
                self.said.append(first)
                try:
                    answer = self.meet(len(self.said), first)
                except ConnectionError:
                    self.gone = True
                    return
            if answer is not None:
                status, message = answer
                body = json.dumps({"message": message}).encode()
                client.sendall(b"HTTP/1.1 %d No\r\nConnection: close\r\n" % status)
                client.sendall(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                return
            self._pass_on(client, reader, head)

    def _pass_on(self, client: socket.socket, reader: object, head: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(REAL)
            if not re.search(rb"(?i)\r\nupgrade:", head):
                head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)
                head = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            daemon.sendall(head)
            up = threading.Thread(target=_copy, args=(reader, daemon), daemon=True)
            up.start()
            while piece := daemon.recv(1 << 16):
                client.sendall(piece)
            client.shutdown(socket.SHUT_RDWR)  # the thread may still wait for more: a client waits for the end then


def _copy(reader: object, to: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while piece := reader.read1(1 << 16):  # type: ignore[attr-defined]
            to.sendall(piece)


@contextmanager
def daemon_proxy(
    folder: Path, meet: Callable[[int, str], tuple[int, str] | None] | None = None
) -> Iterator[DaemonProxy]:
    """A proxy that accepts connections for as long as the block lasts."""
    made = DaemonProxy(str(folder / "d.sock"))
    if meet is not None:
        made.meet = meet
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(made.path)
        listener.listen(64)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=made.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield made
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            Path(made.path).unlink()


@contextmanager
def proxied(
    folder: Path, monkeypatch: pytest.MonkeyPatch, meet: Callable[[int, str], tuple[int, str] | None] | None = None
) -> Iterator[DaemonProxy]:
    """As `daemon_proxy`, which all requests of this process go through."""
    with daemon_proxy(folder, meet) as proxy, monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", proxy.host)
        yield proxy
