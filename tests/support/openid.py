"""A provider of OpenID Connect for tests: everybody who comes is logged in as one user."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from lbgen.runtime.common.tokens import public_keys, token

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = "lbgen"
USER, EMAIL = "ann", "ann@shop.example"
CLAIMS = {"sub": USER, "email": EMAIL, "email_verified": True, "groups": ["staff"]}


class _Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        path, query = urlsplit(self.path)[2:4]
        if path == "/authorize":
            given = {key: values[0] for key, values in parse_qs(query).items()}
            code = json.dumps({"nonce": given.get("nonce"), "client": given["client_id"]})
            back = urlencode({"code": code, "state": given["state"]})
            self._send(302, None, ("Location", f"{given['redirect_uri']}?{back}"))
        elif path == "/userinfo":
            self._send(200, CLAIMS)
        elif path == "/keys":
            self._send(200, json.loads(public_keys()))
        elif path == "/.well-known/openid-configuration":
            urls = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
            self._send(
                200,
                {
                    "issuer": self._issuer,
                    **{f"{name}_endpoint": f"{self._issuer}/{path}" for name, path in urls.items()},
                    "jwks_uri": f"{self._issuer}/keys",
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                },
            )
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = json.loads(form["code"][0])
        identity = token({**CLAIMS, "aud": asked["client"], "nonce": asked["nonce"]}, issuer=self._issuer)
        self._send(200, {"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "id_token": identity})

    def _send(self, status: int, data: Any, *fields: tuple[str, str]) -> None:
        body = b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        for name, value in (*fields, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what fails."""


@contextmanager
def openid_provider() -> Iterator[str]:
    """The issuer's URL, on a free port of 127.0.0.1, for as long as the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
