"""A small HTTP server on loopback that answers challenges of ACME from files named by their tokens."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from lbgen.agent.certificate_store import TOKEN
from lbgen.plan.acme import CHALLENGE_PATH

_PREFIX = f"{CHALLENGE_PATH}/"
_MOST = 4096  # bytes of an answer
_IDLE_SECONDS = 10


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "lbgen", ""
    timeout = _IDLE_SECONDS
    folders: ClassVar[tuple[Path, ...]] = ()

    def do_GET(self) -> None:  # named by the method
        answer = find_answer(self.path, self.folders)
        body = b"there is no such challenge\n" if answer is None else answer
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/octet-stream" if answer is not None else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  # named by the method

    def log_message(self, format: str, *args: object) -> None:
        """The engine logs requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that the engine closes is no error."""


def find_answer(target: str, folders: tuple[Path, ...]) -> bytes | None:
    """The content of the file that a request for `target` names, in the first of `folders` that has it; None for any
    other target. A name is a token (RFC 8555, 8.3), so that none leads out of a folder; a symbolic link is no file."""
    name = target.partition("?")[0].removeprefix(_PREFIX)
    if not target.startswith(_PREFIX) or not TOKEN.fullmatch(name):
        return None
    for folder in folders:
        path = folder / name
        try:
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as stream:
                    return stream.read(_MOST)
        except OSError:
            continue
    return None


def challenge_server(port: int, folders: tuple[Path, ...]) -> ThreadingHTTPServer:
    """The server, bound; `serve_forever` runs it. Raises OSError where the port is taken."""
    handler = type("Handler", (_Handler,), {"folders": folders})
    return _Server(("127.0.0.1", port), handler)
