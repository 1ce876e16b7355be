"""Pebble, Let's Encrypt's small ACME authority for tests, with a DNS server that answers what tests say."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.common.certificates import Spec, make

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = Path(os.environ.get("LBGEN_PEBBLE", Path(__file__).parents[2] / "build" / "pebble"))
_SECONDS = 15


def require() -> None:
    """Skip the test where Pebble is not built."""
    if not (CACHE / "pebble").is_file() or not (CACHE / "pebble-challtestsrv").is_file():
        pytest.skip("Pebble is not built: tests/acme/build.sh builds it")


class Authority:
    """A running Pebble. `directory` is its URL, `ca` signs its own certificate."""

    def __init__(self, folder: Path, host: str, api: int, management: int, dns: int) -> None:
        self.folder = folder
        self.directory = f"https://{host}:{api}/dir"
        self.ca = folder / "ca.crt"
        self._management = f"https://127.0.0.1:{management}"
        self._dns = f"http://127.0.0.1:{dns}"
        self._context = ssl.create_default_context(cafile=str(self.ca))

    def resolve(self, name: str, address: str | None) -> None:
        """Have DNS answer `name` with an address; None = with nothing."""
        if address is None:
            self._post("/clear-a", {"host": f"{name}."})
            self._post("/set-servfail", {"host": f"{name}."})
        else:
            self._post("/clear-servfail", {"host": f"{name}."})
            self._post("/add-a", {"host": f"{name}.", "addresses": [address]})

    def status(self, serial: int) -> dict[str, str]:
        """What it says of a certificate."""
        with urllib.request.urlopen(
            f"{self._management}/cert-status-by-serial/{serial:x}", context=self._context
        ) as it:
            return json.load(it)

    def _post(self, path: str, body: object) -> None:
        request = urllib.request.Request(self._dns + path, json.dumps(body).encode(), method="POST")
        urllib.request.urlopen(request, timeout=5).close()


@contextmanager
def authority(
    folder: Path, http_port: int, ports: int, validity: int = 3600, host: str = "127.0.0.1"
) -> Iterator[Authority]:
    """Run Pebble on four ports from `ports` on; it asks challenges on `http_port`, and its certificates are valid for
    `validity` seconds. `host`: its address."""
    require()
    folder.mkdir(parents=True, exist_ok=True)
    make(folder, (Spec("pebble", (host, "127.0.0.1")),))
    api, management, dns, control = range(ports, ports + 4)
    config = {
        "pebble": {
            "listenAddress": f"{host}:{api}",
            "managementListenAddress": f"127.0.0.1:{management}",
            "certificate": str(folder / "pebble.crt"),
            "privateKey": str(folder / "pebble.key"),
            "httpPort": http_port,
            "tlsPort": 9,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": False,
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "for tests", "validityPeriod": validity}},
        }
    }
    (folder / "pebble.json").write_text(json.dumps(config))
    environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
    log = (folder / "pebble.log").open("ab")
    dns_argv = [
        *(str(CACHE / "pebble-challtestsrv"), "-management", f"127.0.0.1:{control}", "-dnsserver", f"127.0.0.1:{dns}"),
        *("-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1"),
    ]
    pebble_argv = [
        *(str(CACHE / "pebble"), "-config", str(folder / "pebble.json"), "-strict"),
        *("-dnsserver", f"127.0.0.1:{dns}"),
    ]
    running = [
        subprocess.Popen(argv, stdout=log, stderr=log, env=environment, cwd=folder) for argv in (dns_argv, pebble_argv)
    ]
    try:
        found = Authority(folder, host, api, management, control)
        _wait(found, running)
        yield found
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait()
        log.close()


def _wait(found: Authority, running: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            urllib.request.urlopen(found.directory, timeout=2, context=found._context).close()
        except OSError:
            if time.monotonic() > end or any(each.poll() is not None for each in running):
                raise AssertionError((found.folder / "pebble.log").read_text()[-2000:]) from None
            time.sleep(0.05)
        else:
            return


def available() -> bool:
    """Whether Pebble is built."""
    return all(shutil.which(str(CACHE / name)) for name in ("pebble", "pebble-challtestsrv"))
