"""A login by oauth2-proxy and OpenID Connect through examples/auth on every engine: there, back, and out again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from lbgen.spec.load import load
from tests.clients.place import HERE, PLAIN, SECURE, Both, Place, name, program, run
from tests.clients.test_python import context
from tests.support.openid import CLIENT, EMAIL, USER, openid_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest
    from lbgen.spec.load import Topology
    from tests.clients.place import Places

pytestmark = pytest.mark.engines
BUILT = Path(os.environ.get("LBGEN_OAUTH2_PROXY", HERE.parents[1] / "build" / "oauth2-proxy")) / "oauth2-proxy"
EXAMPLE = HERE.parents[1] / "examples" / "auth"
README = re.search(r"runs with `([^`]+)`", (EXAMPLE / "README.md").read_text(encoding="utf-8"))
PAGE = "/app/echo?x=1&y=a%20b"
FORGED = {"X-Auth-Request-User": "root", "X-Auth-Request-Email": "root@shop.example"}
# How it is asked: as in the example, and for programs, as its README says.
WAYS: dict[str, dict[str, str]] = {"page": {}, "401": {"path": "/oauth2/auth", "redirect_to": "/oauth2/start?rd={uri}"}}


@contextmanager
def oauth2_proxy(port: int, folder: Path) -> Iterator[None]:
    """oauth2-proxy on `port`, with the options of the example's README and those of a provider."""
    if not BUILT.is_file():
        pytest.skip("oauth2-proxy is not built: tests/clients/build_oauth2_proxy.sh builds it")
    assert README is not None
    with openid_provider() as issuer, (folder / "oauth2-proxy.log").open("ab") as log:
        options = {
            "provider": "oidc",
            "oidc-issuer-url": issuer,
            "client-id": CLIENT,
            "client-secret": "for tests",
            "cookie-secret": "0123456789abcdef",
            "cookie-secure": "false",
            "email-domain": "*",
            "http-address": f"127.0.0.1:{port}",
            "trusted-proxy-ip": "127.0.0.1",
        }
        argv = [str(BUILT), *README[1].split(), *(f"--{key}={value}" for key, value in options.items())]
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            transport = httpx.HTTPTransport(retries=8)  # 0.5 s, 1 s, 2 s, ... apart
            with httpx.Client(transport=transport, trust_env=False) as client:
                assert client.get(f"http://127.0.0.1:{port}/ping").status_code == 200
            yield
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def proxy(places: Places) -> Iterator[int]:
    """The port of a running oauth2-proxy."""
    port = places.free_port()
    with ExitStack() as stack:
        stack.enter_context(oauth2_proxy(port, places.folder))
        yield port


@pytest.fixture(params=WAYS)
def both(places: Places, subject: EngineUnderTest, proxy: int, request: pytest.FixtureRequest) -> Both:
    def loaded(ports: dict[str, int]) -> Topology:
        """The example, on other addresses."""
        data: dict[str, Any] = yaml.safe_load((EXAMPLE / "topology.yaml").read_text(encoding="utf-8"))
        web = {**data["listeners"]["web"], "address": "127.0.0.1"}
        tls = {"certificates": [{"cert": "local.crt", "key": "local.key"}]}
        data["listeners"] = {PLAIN: {**web, "port": ports[PLAIN]}, SECURE: {**web, "port": ports[SECURE], "tls": tls}}
        for pool in data["pools"]:
            port = proxy if pool == "oauth2-proxy" else ports["http"]
            data["pools"][pool]["endpoints"] = [{"address": f"127.0.0.1:{port}"}]
        [app] = [route for route in data["routes"] if route["name"] == "app"]
        app["auth"]["forward"] |= WAYS[request.param]
        for users in EXAMPLE.glob("*.htpasswd"):
            shutil.copy(users, places.folder)
        return load(data)

    return places.serve(subject, f"{name(subject)}, oauth2-proxy {request.param}", loaded, "/healthz")


@contextmanager
def browser(place: Place, listener: str = PLAIN) -> Iterator[httpx.Client]:
    """A client with cookies of its own, which follows redirects; over TLS by HTTP/2."""
    url, verify = place.url("", listener), context(place)
    options: dict[str, Any] = {"trust_env": False, "follow_redirects": True, "timeout": 20}
    with httpx.Client(base_url=url, verify=verify, http2=listener == SECURE, **options) as client:
        yield client


def account(answer: httpx.Response) -> dict[str, Any]:
    """The fields that the endpoint got."""
    assert answer.status_code == 200, answer.text
    return {key.lower(): value for key, value in answer.json()["fields"]}


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_a_login(both: Both, listener: str) -> None:
    with browser(both.through, listener) as client:
        first = client.get(PAGE)
        assert {each.status_code for each in first.history} == {302}
        assert first.history[-1].url.path == "/oauth2/callback"
        page = client.get(PAGE, headers=FORGED)
        assert page.history == []
        assert page.json()["target"] == PAGE
        fields = account(page)
        assert (fields["x-auth-request-user"], fields["x-auth-request-email"]) == (USER, EMAIL)
        post = client.post(PAGE, content=b"x" * 1_000_000)
        assert (post.json()["method"], post.json()["size"]) == ("POST", 1_000_000)
        client.get("/oauth2/sign_out?rd=%2Fhealthz")
        assert client.get(PAGE, headers=FORGED, follow_redirects=False).status_code == 302


def test_the_login_leads_back_to_the_page(both: Both) -> None:
    with browser(both.through) as client:
        answer = client.get(PAGE)
        # {uri} is put into redirect_to as it is, so that the login reads the rest of its query as fields of its own.
        assert answer.url.raw_path.decode() == (PAGE.partition("&")[0] if "401" in both.through.label else PAGE)
        assert account(answer)["x-auth-request-user"] == USER


def test_nobody_gets_in_without_a_login(both: Both) -> None:
    for fields in (FORGED, {"Cookie": "_oauth2_proxy=forged"}, {"Authorization": "Bearer a.b.c"}):
        path = f"/app/echo/{both.through.label.replace(' ', '-')}"
        answer = httpx.get(both.through.url(path), headers=fields, trust_env=False)
        assert answer.status_code == 302
        assert path not in both.stats()


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize("both", ["page"], indirect=True)
def test_chromium_logs_in(both: Both, listener: str, tmp_path: Path) -> None:
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--ignore-certificate-errors")  # fmt: skip
    argv = (program("chromium"), *flags, f"--user-data-dir={tmp_path}", "--no-proxy-server", "--dump-dom")
    done = run(*argv, both.through.url(PAGE, listener))
    assert EMAIL in done.stdout, done.stdout + done.stderr[-2000:]
