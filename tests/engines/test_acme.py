"""Certificates by ACME from Pebble: obtained, renewed and kept by the agent while clients lose nothing."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import stat
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509

import lbgen
from lbgen import api
from lbgen.agent.acme_client import AcmeClient
from lbgen.agent.certificate_store import CertificateStore
from lbgen.diagnostics import LbgenError
from lbgen.engines.acme_spec import OrderedCertificate
from lbgen.plan.acme import CHALLENGE_PATH
from lbgen.runtime.common import issued_certificates
from lbgen.runtime.common.certificates import Spec, make
from tests.support import pebble
from tests.support.command import run_lbgen
from tests.support.engine_lists import need_binary
from tests.support.sample import sample
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


def store(name: str = "certified") -> Path:
    return issued_certificates.store_folder(name)


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
        revoke(authority, first, store())
        lbgen.reload(lbgen.load(topology(authority)))  # asks at once; else after the time that the authority says
        assert wait_issued(other_than=first.serial_number)


def revoke(authority: pebble.Authority, certificate: x509.Certificate, where: Path) -> None:
    """By the account in that store."""
    from acme import messages
    from acme.client import ClientNetwork, ClientV2
    from josepy import jwa, jwk

    [file] = where.glob("account-*")
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


def test_engines_of_one_stack_share_what_one_of_them_orders(tmp_path):
    for engine in ENGINES:
        need_binary(engine, None)
    first = WEB + 1_000  # where the first of several engines serves
    with (
        pebble.authority(tmp_path / "pebble", first, AUTHORITY, validity=15) as authority,
        lbgen.up(lbgen.load(topology(authority)), ENGINES, accept=("all",), runtime="local") as stack,
    ):
        assert stack.address("web").port == first
        share(stack)
        assert sum("orders" in Path(x.directory, "agent.log").read_text() for x in stack.engines) == 1


def share(stack: lbgen.Stack) -> None:
    """All engines show one certificate, and then the next one."""
    ports = [stack.address("secure", engine.name).port for engine in stack.engines]
    before = 0
    for _ in range(2):
        before = wait_issued(ports[0], other_than=before).serial_number
        wait_for(lambda: {shown(port).serial_number for port in ports} == {shown(ports[0]).serial_number})


def test_a_tier_in_front_gets_a_certificate(tmp_path):
    for engine in ("haproxy", "nginx"):
        need_binary(engine, None)
    with pebble.authority(tmp_path / "pebble", WEB, AUTHORITY) as authority:
        data = topology(authority, "haproxy")
        for listener in data["listeners"].values():
            listener["tier"] = "edge"
        data["listeners"]["inner"] = {"port": WEB + 2, "tier": "web"}
        data["pools"]["web"] = {"tier": "web"}
        data["routes"][0]["listeners"] = ["web"]
        data["routes"][1]["forward"] = "web"
        data["routes"].append({"name": "app", "listeners": ["inner"], "forward": "app"})
        data["tiers"] = {"edge": {"engine": "haproxy"}, "web": {"engine": "nginx"}}
        del data["engines"]
        with lbgen.up(lbgen.load(data), accept=("all",), runtime="local"):
            wait_issued()
            with clients() as kept:
                time.sleep(1)
            assert kept.lost == []
            assert kept.good > 10


def kept_elsewhere(
    folder: Path, how: str, host: str, port: int, name: str = "certified", web: int = WEB, secure: int = SECURE
) -> lbgen.Topology:
    """A topology that leads challenges to an ACME client in `folder`, which has or is served at that address."""
    make(folder, (Spec("shop", NAMES),))
    (folder / "users.htpasswd").write_text("anna:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
    challenges = {"forward": "client"} if how == "forward" else {"directory": str(folder / "www" / CHALLENGE_PATH[1:])}
    made: dict[str, Any] = {
        "version": 1,
        "name": name,
        "listeners": {
            "web": {"port": web, "auth": {"basic": {"users": "users.htpasswd"}}},
            "secure": {"port": secure, "tls": {"certificates": [{"cert": "shop.crt", "key": "shop.key"}]}},
        },
        "acme_challenge": challenges,
        "pools": {"app": {"endpoints": [{"address": "10.9.3.1:80"}]}},
        "routes": [
            {"name": "up", "listeners": ["web"], "redirect": {"status": 301, "scheme": "https", "port": secure}},
            {"name": "shop", "listeners": ["secure"], "hosts": list(NAMES), "forward": "app"},
        ],
    }
    if how == "forward":
        made["pools"]["client"] = {"endpoints": [{"address": f"{host}:{port}"}], "stand_ins": False}
    (folder / "kept.yaml").write_text(json.dumps(made))
    return lbgen.load(str(folder / "kept.yaml"))


@contextmanager
def acme_client(folder: Path, authority: pebble.Authority, host: str) -> Iterator[tuple[AcmeClient, int]]:
    """A client such as lego: it puts challenges into a webroot in `folder`, which is also served at that address."""
    place = folder / "www" / CHALLENGE_PATH[1:]
    place.mkdir(parents=True)
    (folder / "account").mkdir()
    store = CertificateStore(folder / "account")
    store.tokens = place
    order = OrderedCertificate("shop", NAMES, "", "", authority.directory, None, str(authority.ca))

    class Served(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder / "www"))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield AcmeClient(order, store, folder), server.server_address[1]
        server.shutdown()


def obtain(client: AcmeClient, folder: Path, web: int = WEB) -> None:
    """Get a certificate by challenges on that port, where all else is guarded."""
    chain, _ = client.obtain()
    assert is_issued(x509.load_pem_x509_certificate(chain))
    (folder / "www" / CHALLENGE_PATH[1:] / "token").write_text("answer")
    statuses = {}
    for path in ("/", f"{CHALLENGE_PATH}/token", f"{CHALLENGE_PATH}/other", f"{CHALLENGE_PATH}s/token"):
        connection = http.client.HTTPConnection("127.0.0.1", web, timeout=5)
        connection.request("GET", path, headers={"Host": NAMES[0]})
        answer = connection.getresponse()
        statuses[path] = answer.status
        if answer.status == 200:
            assert answer.read() == b"answer"
        connection.close()
    assert list(statuses.values()) == [401, 200, 404, 401], statuses


@pytest.mark.parametrize("how", ["forward", "directory"])
@pytest.mark.parametrize("engine", sample(ENGINES, ("haproxy",)))
def test_another_client_gets_its_certificate(engine, how, tmp_path):
    need_binary(engine, None)
    with (
        TemporaryDirectory() as name,
        pebble.authority(tmp_path / "pebble", WEB, AUTHORITY) as authority,
        acme_client(Path(name), authority, "127.0.0.1") as (client, port),
    ):
        Path(name).chmod(0o755)  # the agent is no user that may read everything
        data = kept_elsewhere(Path(name), how, "127.0.0.1", port)
        with lbgen.up(data, engine=engine, accept=("all",), runtime="local"):
            obtain(client, Path(name))


def test_a_folder_of_challenges_that_is_not_there_is_a_finding(tmp_path):
    need_binary("haproxy", None)
    data = kept_elsewhere(tmp_path, "directory", "", 0)
    with pytest.raises(LbgenError, match=r"LB211 acme_challenge\.directory: the folder"):
        lbgen.up(data, engine="haproxy", accept=("all",), runtime="local")
