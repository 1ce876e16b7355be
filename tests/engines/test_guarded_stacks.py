"""Guarded routes, pages and values as processes: a running `lbgen reload --watch` takes each change of their files."""

from __future__ import annotations

import base64
import hashlib
import http.client
import http.server
import json
import os
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.runtime.common.tokens import ISSUER, public_keys, token
from tests.support.engine_lists import need_binary
from tests.support.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
WEB = 25_330
ENGINES = ("nginx", "haproxy", "envoy", "traefik")
TOKENS = ("haproxy", "envoy")  # the engines that verify them
SECONDS = 30
_BCRYPT = {
    "one": "$2y$05$0tjxXCyK7fsQDMBsQ0IkyONX.2FkbaeSqDA4fuYH3JStj5X4bhQgK",
    "two": "$2y$05$PMN/NhyIVWfUbIzmtRaguOmg6M54Ps7Zk3Bk1kGmBus3zX89o7jx.",
}


class _Service(http.server.BaseHTTPRequestHandler):
    """The endpoint, which answers with the fields that it got, and at /verify the service that admits those who have
    the cookie `session`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.path == "/verify"
        admitted = "session=ours" in self.headers.get("Cookie", "")
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(401 if asked and not admitted else 200)
        if asked and admitted:
            self.send_header("X-User", "ann")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def service(host: str) -> Iterator[int]:
    """The port of the endpoint and service at that address."""
    with http.server.ThreadingHTTPServer((host, 0), _Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def topology(name: str, engine: str, web: int, host: str, port: int) -> dict[str, Any]:
    """Routes guarded in each way to an endpoint at that address, by a policy for what they have in common."""
    guards: dict[str, Any] = {
        "staff": {"basic": {"users": "users.htpasswd", "realm": "Staff"}},
        "asked": {"forward": {"pool": "app", "path": "/verify", "response_headers": ["x-user"]}},
        "by-url": {"forward": {"url": f"http://{host}:{port}/verify", "response_headers": ["x-user"]}},
    }
    if engine in TOKENS:
        claims = {"x-user": "sub"}
        guards["token"] = {
            "jwt": {"issuer": ISSUER, "audience": ["shop"], "jwks": "keys.json", "claims_to_headers": claims}
        }
    values = {"set": {"x-asked": "{method} {path} by {header.x-caller}"}}
    return {
        "version": 1,
        "name": name,
        "listeners": {"web": {"port": web, "error_pages": {"404": {"file": "404.html"}, "403": {"body": "closed\n"}}}},
        "policies": {"common": {"request_headers": values}},
        "pools": {"app": {"endpoints": [{"address": f"{host}:{port}"}], "stand_ins": False}},
        "routes": [
            *(
                {
                    "name": each,
                    "match": [{"path": {"prefix": f"/{each}"}}],
                    "forward": "app",
                    "policies": ["common"],
                    "auth": auth,
                }
                for each, auth in guards.items()
            ),
            {
                "name": "closed",
                "match": [{"path": {"prefix": "/closed"}}],
                "forward": "app",
                "access": {"deny": ["0.0.0.0/0"]},
            },
        ],
        "engines": {engine: {}},
    }


def write(folder: Path, engine: str, password: str = "one", page: str = "first\n", keys: str = "") -> None:  # noqa: S107
    """The files that the topology names."""
    folder.joinpath("users.htpasswd").write_text(f"anna:{hash_of(engine, password)}\n")
    folder.joinpath("404.html").write_text(page)
    folder.joinpath("keys.json").write_text(keys or public_keys())


def hash_of(engine: str, password: str) -> str:
    """The hash in the users' file of an engine."""
    if engine != "envoy":  # which checks no other hashes than these
        return _BCRYPT[password]
    return "{SHA}" + base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()  # noqa: S324


def ask(web: int, path: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", web, timeout=5)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def basic(password: str) -> str:
    return f"Basic {base64.b64encode(f'anna:{password}'.encode()).decode()}"


def got(web: int, path: str, **headers: str) -> dict[str, str]:
    """The fields that reached the endpoint."""
    status, body = ask(web, path, **headers)
    assert status == 200, body
    return dict(json.loads(body))


def check_guards(web: int, engine: str, password: str = "one") -> None:  # noqa: S107
    """Each route admits whom it should, and nobody else."""
    assert ask(web, "/staff")[0] == 401
    assert ask(web, "/staff", authorization=basic("wrong"))[0] == 401
    assert got(web, "/staff", authorization=basic(password), x_caller="me")["x-asked"] == "GET /staff by me"
    for path in ("/asked", "/by-url"):
        assert ask(web, path)[0] == 401
        assert ask(web, path, cookie="session=theirs", x_user="root")[0] == 401
        assert got(web, path, cookie="session=ours", x_user="root")["x-user"] == "ann"
    if engine in TOKENS:
        assert ask(web, "/token")[0] == 401
        assert ask(web, "/token", authorization=f"Bearer {token(made='foreign')}")[0] == 401
        assert got(web, "/token", authorization=f"Bearer {token()}", x_user="root")["x-user"] == "ann"
    assert ask(web, "/closed") == (403, b"closed\n")


def other_keys() -> str:
    """A set of keys without ours."""
    from cryptography.hazmat.primitives.asymmetric import ec

    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    x, y = (base64.urlsafe_b64encode(n.to_bytes(32, "big")).rstrip(b"=").decode() for n in (numbers.x, numbers.y))
    return json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "kid": "other", "x": x, "y": y}]})


def wait_for(found: Callable[[], bool], said: Callable[[], str] = str) -> None:
    """Wait until it is so; `said`: what to print if it never is."""
    end = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < end, said()
        time.sleep(0.1)


class Watcher:
    """A running `lbgen reload --watch`; `lines` are what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self.lines.extend(iter(self._process.stderr.readline, ""))

    def rounds(self) -> int:
        """How often it has looked."""
        return sum("watching" in line for line in self.lines)

    def takes(self, change: Callable[[], object]) -> str:
        """Make a change, and wait until it has dealt with it; what it printed meanwhile."""
        before, begun = self.rounds(), len(self.lines)
        change()
        wait_for(lambda: self.rounds() > before or self._process.poll() is not None)
        return "".join(self.lines[begun:])


@contextmanager
def watching(file: Path) -> Iterator[Watcher]:
    argv = [sys.executable, "-m", "lbgen", "reload", str(file), "--accept", "all", "--watch"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            made = Watcher(process)
            wait_for(lambda: made.rounds() > 0 or process.poll() is not None)
            yield made
        finally:
            process.kill()


def play(folder: Path, name: str, engine: str, web: int, host: str, runtime: str) -> Iterator[lbgen.Stack]:
    """Start, change every file, break one; yields the stack once it serves."""
    with service(host) as port:
        write(folder, engine)
        file = folder / "guarded.yaml"
        file.write_text(json.dumps(topology(name, engine, web, host, port)))
        stack = lbgen.up(lbgen.load(str(file)), engine=engine, runtime=runtime, accept=("all",))
        check_guards(web, engine)
        assert ask(web, "/none") == (404, b"first\n")
        yield stack
        with watching(file) as watcher:

            def change(page: str, *others: str) -> None:
                """Change the page, and other files; Traefik reads them a moment after the reload."""
                watcher.takes(lambda: write(folder, engine, others[0] if others else "one", page, *others[1:]))
                wait_for(lambda: ask(web, "/none") == (404, page.encode()), lambda: "".join(watcher.lines))

            change("second\n")
            change("third\n", "two")
            check_guards(web, engine, "two")
            assert ask(web, "/staff", authorization=basic("one"))[0] == 401
            said = watcher.takes(lambda: folder.joinpath("users.htpasswd").write_text("anna\n"))
            assert "LB241" in said
            check_guards(web, engine, "two")
            change("fourth\n")
            check_guards(web, engine)
            if engine in TOKENS:
                change("fifth\n", "one", other_keys())
                assert ask(web, "/token", authorization=f"Bearer {token()}")[0] == 401


@pytest.mark.parametrize("engine", sample(ENGINES, ("nginx", "haproxy")))
def test_changes_of_users_keys_and_pages_are_loaded(engine: str, tmp_path: Path) -> None:
    need_binary(engine)
    for stack in play(tmp_path, "guarded", engine, WEB, "127.0.0.1", "local"):
        folder = Path(stack.engines[0].directory)
        files = [path for path in folder.rglob("*") if path.is_file()]
        secret = [path for path in files if hash_of(engine, "one") in path.read_text(errors="replace")]
        assert secret
        for path in secret:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert os.geteuid() != 0 or path.stat().st_uid == 65534
