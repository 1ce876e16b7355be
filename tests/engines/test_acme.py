"""Certificates by ACME from Pebble: obtained, renewed and kept by the agent while clients lose nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import stat
import time
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509

import lbgen
from lbgen import api
from lbgen.runtime.common import issued_certificates
from tests.support import pebble
from tests.support.command import run_lbgen
from tests.support.engine_lists import need_binary
from tests.support.traffic import Traffic, traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
WEB, SECURE, AUTHORITY = 25_300, 25_301, 25_310
NAMES = ("shop.example", "www.shop.example")
ENGINES = ("nginx", "haproxy", "envoy", "traefik")
SECONDS = 40  # for what takes two seconds on a machine with nothing else to do


def topology(
    authority: pebble.Authority, engine: str = "nginx", web: int = WEB, secure: int = SECURE
) -> dict[str, Any]:
    acme = {"email": "ops@shop.example", "directory": authority.directory, "ca": str(authority.ca)}
    return {
        "version": 1,
        "name": "certified",
        "listeners": {"web": {"port": web}, "secure": {"port": secure, "tls": {"acme": acme}}},
        "pools": {"app": {"endpoints": [{"address": "10.9.3.1:80"}]}},
        "routes": [
            {
                "name": "up",
                "listeners": ["web"],
                "redirect": {"status": 301, "scheme": "https", "port": secure},
                "access": {"deny": ["0.0.0.0/0"]},
            },
            {"name": "shop", "listeners": ["secure"], "hosts": list(NAMES), "forward": "app"},
        ],
        "engines": {engine: {}},
    }


@contextmanager
def serving(authority: pebble.Authority, engine: str = "nginx") -> Iterator[lbgen.Stack]:
    need_binary(engine, None)
    with lbgen.up(lbgen.load(topology(authority, engine)), engine=engine, accept=("all",), runtime="local") as stack:
        yield stack


def shown(port: int = SECURE) -> x509.Certificate:
    """The certificate that a client sees."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=NAMES[0]) as secured,
    ):
        return x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")


def is_issued(certificate: x509.Certificate) -> bool:
    return certificate.issuer != certificate.subject


def wait_for(found: Any, seconds: float = SECONDS) -> Any:  # whatever it finds
    """What `found` returns once it is true."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, agent_log()
        time.sleep(0.2)
    return value


def wait_issued(port: int = SECURE, other_than: int = 0) -> x509.Certificate:
    def there() -> x509.Certificate | None:
        certificate = shown(port)
        return certificate if is_issued(certificate) and certificate.serial_number != other_than else None

    return wait_for(there)


def agent_log() -> str:
    files = [Path(x.directory) / "agent.log" for each in api.ps() for x in each.engines]
    return "".join(each.read_text() for each in files if each.is_file())


def store() -> Path:
    return issued_certificates.store_folder("certified")


def clients(port: int = SECURE, *, fresh: bool = False) -> AbstractContextManager[Traffic]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return traffic(port, authority=NAMES[0], tls=context, fresh=fresh)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_certificate_is_obtained_renewed_and_kept(engine, tmp_path):
    with (
        pebble.authority(tmp_path / "pebble", WEB, AUTHORITY, validity=12) as authority,
        serving(authority, engine) as stack,
    ):
        assert not is_issued(shown())  # an order takes a second at least
        with clients() as kept, clients(fresh=True) as new:
            first = wait_issued()
            second = wait_issued(other_than=first.serial_number)
            time.sleep(1)
        names = second.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert set(names.get_values_for_type(x509.DNSName)) == set(NAMES)
        assert (kept.lost, new.lost) == ([], [])
        assert kept.good > 20
        assert new.good > 10
        record = run_lbgen("ps", "certified", "--json")
        [certificate] = json.loads(record.stdout)[0]["certificates"]
        assert certificate["issued"]
        assert certificate["failures"] == 0
        folder = Path(stack.engines[0].directory)
        for key in (
            folder / "tls/acme-secure.crt.key",
            store() / "acme-secure.crt.key",
            *store().glob("account-*"),
        ):
            assert stat.S_IMODE(key.stat().st_mode) == 0o600, key


def test_the_next_stack_uses_what_is_there(tmp_path):
    with pebble.authority(tmp_path / "pebble", WEB, AUTHORITY) as authority:
        with serving(authority):
            first = wait_issued()
        with serving(authority, "haproxy"):
            assert shown().serial_number == first.serial_number
            time.sleep(2)
            assert "orders" not in agent_log()


def test_what_is_revoked_is_ordered_again(tmp_path):
    with pebble.authority(tmp_path / "pebble", WEB, AUTHORITY) as authority, serving(authority):
        first = wait_issued()
        _revoke(authority, first)
        lbgen.reload(lbgen.load(topology(authority)))  # asks at once; else after the time that the authority says
        assert wait_issued(other_than=first.serial_number)


def _revoke(authority: pebble.Authority, certificate: x509.Certificate) -> None:
    from acme import messages
    from acme.client import ClientNetwork, ClientV2
    from josepy import jwa, jwk

    [file] = store().glob("account-*")
    saved = json.loads(file.read_text())
    account = messages.RegistrationResource(uri=saved["uri"], body=messages.Registration())
    network = ClientNetwork(jwk.JWK.from_json(saved["key"]), account, alg=jwa.ES256, verify_ssl=str(authority.ca))
    ClientV2(ClientV2.get_directory(authority.directory, network), network).revoke(certificate, 0)


def test_a_failure_is_a_finding_and_takes_no_certificate_away(tmp_path):
    with pebble.authority(tmp_path / "pebble", WEB, AUTHORITY, validity=12) as authority, serving(authority):
        first = wait_issued()
        authority.resolve(NAMES[1], None)
        stack = wait_for(lambda: next((x for x in api.ps("certified") if x.warnings), None))
        [finding] = stack.warnings
        assert finding.code == "LB435"
        assert NAMES[1] in finding.message
        assert is_issued(shown())
        assert "LB435" in run_lbgen("ps").stderr
        authority.resolve(NAMES[1], "127.0.0.1")
        lbgen.reload(lbgen.load(topology(authority)))  # tries at once
        wait_issued(other_than=first.serial_number)
        wait_for(lambda: not api.ps("certified")[0].warnings)


def test_an_agent_that_is_killed_in_an_order_orders_again(tmp_path):
    with pebble.authority(tmp_path / "pebble", WEB, AUTHORITY) as authority, serving(authority), clients() as kept:
        wait_for(lambda: "orders" in agent_log())
        os.kill(api.ps("certified")[0].engines[0].agent, signal.SIGKILL)
        wait_issued()
    assert kept.lost == []
