"""curl does what people use it for, over HTTP/1.1, HTTP/2 with prior knowledge, and TLS."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.clients.endpoints import content
from tests.clients.place import CLEAR, PLAIN, SECURE, Both, Place, program, run

pytestmark = pytest.mark.engines
Version = tuple[str, str]  # a listener, and an option
VERSIONS = {"1.1": (PLAIN, "--http1.1"), "tls": (SECURE, "--http2")}
MORE = {
    "h2c": (CLEAR, "--http2-prior-knowledge"),  # curl 7.88 cannot use such a connection twice
    "tls-1.1": (SECURE, "--http1.1"),
    "upgrade": (PLAIN, "--http2"),  # it asks for h2c as Java does, and takes what it gets
}
SIZE = 5_000_000


@pytest.fixture(params=VERSIONS.values(), ids=VERSIONS)
def version(request: pytest.FixtureRequest) -> Version:
    return request.param


@pytest.fixture(params=[*VERSIONS.values(), *MORE.values()], ids=[*VERSIONS, *MORE])
def any_version(request: pytest.FixtureRequest) -> Version:
    return request.param


def curl(place: Place, version: Version, path: str, *options: object, data: bytes = b"") -> dict[str, Any]:
    """Status, fields and body of the last answer, and what curl says. In `options`, FILE holds `data`."""
    listener, flag = version
    place.has(listener)
    flags = [] if place.direct and listener != PLAIN else [flag]
    if place.is_tls(listener):
        flags += ["--cacert", str(place.folder / "ca.crt")]
    file, got = place.folder / "sent", place.folder / "got"
    file.write_bytes(data)
    flags += [str(each).replace("FILE", str(file)) for each in options]
    say = ("-w", "%{stderr}%{json}\n%{header_json}", "-o", got)
    done = run(program("curl"), "-sg", "-m", 20, *say, *flags, place.url(path, listener))
    about, _, fields = done.stderr.partition("\n")
    facts = json.loads(about)
    body = got.read_bytes() if got.exists() and facts["size_download"] else b""
    got.unlink(missing_ok=True)
    return {
        "exit": done.returncode,
        "status": facts["response_code"],
        "size": 0 if body[:2] == b'{"' else len(body),
        "body": json.loads(body) if body[:2] == b'{"' else hashlib.sha256(body).hexdigest(),
        "answer": [(key, each) for key, values in json.loads(fields or "{}").items() for each in values],
        "redirects": facts["num_redirects"],
        "connects": facts["num_connects"],
    }


def test_curl_get(both: Both, any_version: Version) -> None:
    path = "/http/echo/a%20b;v=1/~me/caf%C3%A9,(1)!?q=a%20b+c&x=%2F&e=&q=2"
    assert both.same(curl, any_version, path, "-H", "X-A: 1", "-u", "me:pw", "-e", "http://x.example/")["status"] == 200


def test_curl_raw_query(both: Both, any_version: Version) -> None:
    assert both.same(curl, any_version, "/http/echo?f[a]=1|2&t={x}^y`z~&u=http://x.example/?y")["status"] == 200


def test_curl_version(both: Both, any_version: Version) -> None:
    listener, flag = any_version
    both.through.has(listener)
    url, ca = both.through.url("/http/echo", listener), both.through.folder / "ca.crt"
    done = run(program("curl"), "-sS", flag, "--cacert", ca, "-o", "/dev/null", "-w", "%{http_version}", url)
    wanted = {"--http1.1": ["1.1"], "--http2": ["2", "1.1"] if listener == PLAIN else ["2"]}
    assert done.stdout in wanted.get(flag, ["2"]), done.stderr


def test_curl_address_over_tls(both: Both) -> None:
    """The host is an address, so no server name is sent: the first certificate is served."""
    url, ca = f"https://127.0.0.1:{both.through.ports[SECURE]}/http/echo", both.through.folder / "ca.crt"
    done = run(program("curl"), "-sS", "--cacert", ca, "-o", "/dev/null", "-w", "%{http_code}", url)
    assert done.stdout == "200", done.stderr


def test_curl_post(both: Both, any_version: Version) -> None:
    """With Expect: 100-continue, as curl sends it with large bodies."""
    assert (
        both.same(curl, any_version, "/http/echo", "--data-binary", "@FILE", data=content(SIZE))["body"]["size"] == SIZE
    )


@pytest.mark.parametrize(
    "how", [(), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect:")], ids=["", "chunked", "at once"]
)
def test_curl_put(both: Both, version: Version, how: tuple[str, ...]) -> None:
    got = both.same(curl, version, "/http/echo", "-T", "FILE", *how, data=content(SIZE))
    assert (got["body"]["method"], got["body"]["size"]) == ("PUT", SIZE)


def form(place: Place, version: Version) -> list[Any]:
    fields = ("-F", "name=Zoë", "-F", "file=@FILE;filename=a b.txt")  # apart by a random line
    got = curl(place, version, "/http/echo", *fields, data=content(70_000))
    return [got["status"], got["body"]["size"]]


def test_curl_form(both: Both, version: Version) -> None:
    assert both.same(form, version)[0] == 200


def test_curl_head(both: Both, version: Version) -> None:
    got = both.same(curl, version, "/http/bytes/5000", "-I")
    assert ("content-length", "5000") in got["answer"]


def test_curl_methods(both: Both, version: Version) -> None:
    for method in ("DELETE", "PATCH", "OPTIONS", "PROPFIND"):
        assert both.same(curl, version, "/http/echo", "-X", method)["body"]["method"] == method


def test_curl_range(both: Both, version: Version) -> None:
    assert both.same(curl, version, "/http/bytes/100000", "-r", "500-1499")["size"] == 1000


def test_curl_compressed(both: Both, version: Version) -> None:
    got = both.same(curl, version, "/http/bytes/100000", "--compressed")
    assert got["body"] == hashlib.sha256(content(100_000)).hexdigest()


def test_curl_not_modified(both: Both, version: Version) -> None:
    assert both.same(curl, version, "/http/bytes/100000", "-H", 'If-None-Match: "100000"')["status"] == 304


def test_curl_download(both: Both, any_version: Version) -> None:
    assert both.same(curl, any_version, f"/http/bytes/{SIZE}")["body"] == hashlib.sha256(content(SIZE)).hexdigest()


def test_curl_without_length(both: Both, version: Version) -> None:
    assert both.same(curl, version, "/http/chunks/1000")["status"] == 200


def test_curl_events(both: Both, any_version: Version) -> None:
    """Events 20 ms apart come one by one: none is held back for later ones."""
    listener, flag = any_version
    both.through.has(listener)
    url, ca = both.through.url("/sse/events/30", listener), both.through.folder / "ca.crt"
    argv = [program("curl"), "-sN", flag, "--cacert", str(ca), url]
    heard, times = b"", [time.monotonic()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(4096):
            heard += piece
            times.append(time.monotonic())
    apart = sum(after - before > 0.005 for before, after in pairwise(times))
    assert heard.count(b"event: tick") == 30
    assert apart > 10, f"30 events arrived at {apart} times"


def test_curl_redirect(both: Both, version: Version) -> None:
    """307: the body is sent again."""
    got = both.same(curl, version, "/http/redirect", "-L", "--data-binary", "@FILE", data=content(100_000))
    assert (got["redirects"], got["body"]["size"]) == (1, 100_000)


def cookies(place: Place, version: Version) -> list[Any]:
    jar = place.folder / "jar"
    jar.unlink(missing_ok=True)
    return [curl(place, version, "/http/cookies", "-b", jar, "-c", jar) for _ in range(2)]


def test_curl_cookies(both: Both, version: Version) -> None:
    first, second = both.same(cookies, version)
    assert sum(key == "set-cookie" for key, _ in first["answer"]) == 2
    assert second["body"] in [hashlib.sha256(x).hexdigest() for x in (b'a=1; b="x y"', b'b="x y"; a=1')]


def test_curl_reuses_connection(both: Both, version: Version) -> None:
    """Twenty requests on one connection."""
    listener, flag = version
    both.through.has(listener)
    url, ca = both.through.url("/http/echo/[1-20]", listener), both.through.folder / "ca.crt"
    done = run(
        program("curl"), "-s", flag, "--cacert", ca, "-o", "/dev/null", "-w", "%{http_code} %{num_connects} ", url
    )
    assert done.stdout.split() == ["200", "1"] + ["200", "0"] * 19
