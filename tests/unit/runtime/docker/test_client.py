"""A docker daemon that is not there, not ours to ask, too old, mute, elsewhere or none at all: told by its cause."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime import registry
from lbgen.runtime.docker import client, labels

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("docker")
OLD = {"ApiVersion": "1.24", "Version": "1.12.6"}
ANCIENT = {"ApiVersion": "1.18", "Version": "1.6.0"}


@contextmanager
def fake(folder: Path, body: bytes | None, status: str = "200 OK") -> Iterator[str]:
    """Answers every request with `body`, or never when it is None; its DOCKER_HOST."""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body or b'')}\r\n\r\n".encode()
    path = folder / "fake.sock"
    held: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    each, _ = listener.accept()
                    held.append(each)
                    if body is not None:
                        each.recv(65536)
                        each.sendall(head + body)
                        each.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in held:
                each.close()


def refused(*, here: bool = False) -> str:
    with pytest.raises(EngineError) as raised:
        client.connect(here=here)
    [finding] = raised.value.diagnostics
    assert finding.code == "LB420"
    assert finding.hint
    assert raised.value.exit_code == 3
    return str(finding)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("unix:///nowhere/docker.sock", "no docker daemon answers at unix:///nowhere/docker.sock: No such file"),
        ("tcp://127.0.0.1:9", "no docker daemon answers at tcp://127.0.0.1:9: Connection refused"),
        ("gopher://x", "DOCKER_HOST=gopher://x is no address of a docker daemon; write unix:///PATH"),
        ("tcp://127.0.0.1:99999", "DOCKER_HOST=tcp://127.0.0.1:99999 is no address"),
        ("nonsense", "DOCKER_HOST=nonsense is no address"),
    ],
)
def test_nobody_answers(host: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert said in refused()


def test_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, version in enumerate((OLD, ANCIENT)):
        place = tmp_path / str(number)
        place.mkdir()
        with fake(place, json.dumps(version).encode()) as host:
            monkeypatch.setenv("DOCKER_HOST", host)
            assert "lbgen needs 20.10 or newer; update docker, or use --runtime local" in refused()
    with fake(tmp_path, b'{"ApiVersion": "1.40"}') as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert "the docker daemon is too old (API 1.40); lbgen needs 20.10 or newer" in refused()


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b'{"ApiVersion": "x"}', b"[]", b'"x"'])
def test_what_answers_is_no_daemon(body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake(tmp_path, body) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert f"what answers at {host} is no docker daemon" in refused()


def test_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_HELLO_SECONDS", 0.3)
    with fake(tmp_path, None) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert "does not answer in 0.3 s; is it alive?" in refused()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_we_may_not_ask_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake(tmp_path, b"{}") as host:
        Path(host.removeprefix("unix://")).chmod(0o600)
        for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
            folder.chmod(0o755)
        monkeypatch.setenv("DOCKER_HOST", host)
        os.seteuid(65534)
        try:
            said = refused()
        finally:
            os.seteuid(0)
    assert f"no right to talk to the docker daemon at {host}; add yourself to the group docker" in said


def test_it_is_on_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be asked, and not be given what could not be reached."""
    for host in ("tcp://198.51.100.7:2376", "ssh://somebody@198.51.100.7"):
        monkeypatch.setenv("DOCKER_HOST", host)
        assert "is on another host; what it publishes is not reached from here; run lbgen there" in refused(here=True)
    assert all(map(client.is_on_this_host, ("unix:///x", "tcp://127.0.0.1:1", "tcp://localhost", "localhost:1", "")))


def test_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_CONTEXT", "there")
    assert client.is_configured()
    assert "there is no docker context 'there'; `docker context ls`" in refused()
    place = tmp_path / "contexts/meta" / hashlib.sha256(b"there").hexdigest()
    place.mkdir(parents=True)
    meta = {"Name": "there", "Metadata": {}, "Endpoints": {"docker": {"Host": "unix:///nowhere/there.sock"}}}
    (place / "meta.json").write_text(json.dumps(meta))
    assert "no docker daemon answers at unix:///nowhere/there.sock" in refused()


def test_commands_say_what_they_cannot_see(tmp_path: Path) -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nowhere", "LBGEN_STATE_DIR": str(tmp_path / "state")}

    def run(*argv: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "lbgen", *argv], capture_output=True, text=True, check=False, env=env
        )
        assert "Traceback" not in done.stderr
        assert done.stderr.count("LB420") == 1
        return done.returncode, done.stderr

    assert run("ps")[0] == 0
    for argv in (("down", "x"), ("logs", "x"), ("images",), ("images", "build")):
        code, said = run(*argv)
        assert code == 3, argv
        assert "no docker daemon answers at unix:///nowhere: No such file or directory; start it" in said


def test_up_says_why_it_takes_no_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    import lbgen

    plan = lbgen.plan(lbgen.load("examples/postgres/topology.yaml"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    runtime, [said] = registry.default_runtime(plan, backends=True)
    assert (runtime, said.code, str(said.severity)) == ("local", "LB420", "warning")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"message": "starting"}', "503 Service Unavailable", "answers with an error: .*503 Server Error"),
        (b"", "500 Internal Server Error", "answers with an error: .*500 Server Error"),
        (None, "", r"does not answer in 0\.3 s"),
    ],
)
def test_up_takes_no_other_runtime_where_the_daemon_fails(
    body: bytes | None, status: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lbgen

    plan = lbgen.plan(lbgen.load("examples/postgres/topology.yaml"))
    monkeypatch.setattr(client, "_HELLO_SECONDS", 0.3)
    with fake(tmp_path, body, status) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(EngineError, match=f"LB420: .*{said}"):
            registry.default_runtime(plan, backends=True)


def test_up_takes_no_other_runtime_where_containers_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lbgen

    plan = lbgen.plan(lbgen.load("examples/postgres/topology.yaml"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
    labels.saved_folder(plan.name).mkdir(parents=True)
    with pytest.raises(EngineError, match="LB420: no docker daemon answers at unix:///nowhere"):
        registry.default_runtime(plan, backends=True)
