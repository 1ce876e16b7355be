"""Clients that are programs of their own: Go's net/http, grpc-go, Java's HttpClient, Node's fetch, http2 and ws,
Chromium. Each runs once for an engine and prints what it got for each part of its work."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.clients.endpoints import SERVICE
from tests.clients.place import CLEAR, HERE, PLAIN, SECURE, Both, Place, assert_equal, program, run
from tests.support.go import find_go

pytestmark = pytest.mark.engines
PROGRAMS = HERE / "programs"
CACHE = Path(os.environ.get("LBGEN_CLIENTS") or Path.home() / ".cache" / "lbgen-clients")  # compiled, fetched
FETCH_SECONDS = 300


def printed(*argv: object, **given: Any) -> Any:
    """What a client printed, from JSON."""
    done = run(*argv, seconds=240, **given)  # a virtual machine takes a minute beside others
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def outside() -> tuple[str, ...]:
    """The words that run a command in the network of the process that started this one: a worker's reaches nothing."""
    own, parent = Path("/proc/self/ns/net"), Path(f"/proc/{os.getppid()}/ns/net")
    if os.geteuid() != 0 or own.readlink() == parent.readlink():
        return ()
    return (program("nsenter"), f"--net={parent}")


# Go


@cache
def built(name: str) -> Path:
    """The program of Go, compiled once for each state of its sources."""
    go = find_go(PROGRAMS) or pytest.skip("no Go here is new enough")
    sources = b"".join((PROGRAMS / each).read_bytes() for each in (f"{name}.go", "go.mod", "go.sum"))
    made = CACHE / f"{name}-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        if name == "grpc":
            fetched = run(*outside(), go, "mod", "download", seconds=FETCH_SECONDS, cwd=PROGRAMS)
            if fetched.returncode:
                pytest.skip(f"grpc-go could not be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
        argv = (go, "build", "-tags", name, "-o", made, f"{name}.go")
        compiled = run(*argv, seconds=FETCH_SECONDS, cwd=PROGRAMS)
        assert compiled.returncode == 0, compiled.stderr
    return made


def go_http(place: Place, version: str) -> Any:
    listener = {"1.1": PLAIN, "h2c": CLEAR, "tls": SECURE}[version]
    place.has(listener)
    url = place.url("/", listener).rstrip("/")
    return printed(built("http"), url, place.folder / "ca.crt", "1.1" if place.direct else version)


GO = ("get", "post", "in pieces", "expect", "head", "packed", "redirect", "pieces", "events", "set cookies", "cookies")


@pytest.mark.parametrize("version", ["1.1", "h2c", "tls"])
@pytest.mark.parametrize("work", [*GO, "refused", "after it", "reuse"])
def test_go(both: Both, work: str, version: str) -> None:
    both.same_part(work, go_http, version)


def go_grpc(place: Place, listener: str) -> Any:
    place.has(listener)
    host, port = place.address(f"/{SERVICE}", listener)
    return printed(built("grpc"), f"{host}:{port}", place.folder / "ca.crt" if place.is_tls(listener) else "")


GRPC = ("unary", "large", "server stream", "client stream", "bidi", "not found", "60 not found", "error after messages")


@pytest.mark.parametrize("listener", [CLEAR, SECURE], ids=["h2c", "tls"])
@pytest.mark.parametrize("work", [*GRPC, "deadline", "next"])
def test_grpcgo(both: Both, work: str, listener: str) -> None:
    both.same_part(work, go_grpc, listener)


# Java


@cache
def java_classes() -> Path:
    """The folder of the compiled client."""
    compiler = program("javac")
    folder = Path(tempfile.mkdtemp(prefix="lbgen-clients-java-"))
    made = run(compiler, "-d", folder, PROGRAMS / "Client.java")
    assert made.returncode == 0, made.stderr
    return folder


JAVA = ("get", "post", "in pieces", "expect", "head", "download", "redirect", "pieces", "events", "set cookies")
HOW = {"default": (PLAIN, "HTTP_2"), "1.1": (PLAIN, "HTTP_1_1"), "tls": (SECURE, "HTTP_2")}


def java(place: Place) -> Any:
    """What one virtual machine got, by the keys of HOW."""
    words = []
    for listener, version in HOW.values():
        words += [place.url("/", listener).rstrip("/"), place.url("/ws", listener, "ws").removesuffix("/ws"), version]
    got = printed(program("java"), "-cp", java_classes(), "Client", place.folder / "ca.crt", *words)
    for each in (part for parts in got for part in parts.values()):
        if isinstance(each, dict) and str(each.get("body", "")).startswith("{"):
            each["body"] = json.loads(each["body"])
    return dict(zip(HOW, got, strict=True))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("work", [*JAVA, "cookies", "refused", "after it", "websocket"])
def test_java(both: Both, work: str, how: str) -> None:
    wanted, got = both.direct.once(java)[how], both.through.once(java)[how]
    assert_equal(wanted[work], got[work], both.through)


# Node


def node(place: Place, listener: str, kind: str) -> Any:
    where = place.url("/", listener).rstrip("/"), place.url("/ws", listener, "ws").removesuffix("/ws")
    env = {**os.environ, "NODE_EXTRA_CA_CERTS": str(place.folder / "ca.crt")}
    return printed(program("node"), PROGRAMS / "client.mjs", *where, kind, env=env)


FETCH = ("get", "raw query", "post", "stream", "delete", "head", "compressed", "redirect", "pieces", "set cookies")


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize("work", [*FETCH, "refused", "after it", "events", "client leaves"])
def test_node_fetch(both: Both, work: str, listener: str) -> None:
    both.same_part(work, node, listener, "fetch")


def test_node_http2(both: Both) -> None:
    got = node(both.through, SECURE, "http2")
    assert (got["get"]["status"], got["post"]["body"]["size"], got["100 at once"]) == (200, 2_000_000, True)


@cache
def ws() -> Path:
    """The folder with the package ws."""
    folder = CACHE / "node"
    if not (folder / "node_modules" / "ws").exists():
        folder.mkdir(parents=True, exist_ok=True)
        argv = (
            *outside(),
            program("npm"),
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            folder,
            "ws@8",
        )
        done = run(*argv, seconds=FETCH_SECONDS)
        if done.returncode:
            pytest.skip(f"the package ws could not be fetched: {(done.stderr or done.stdout).strip()[-100:]}")
    return folder


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_node_ws(both: Both, listener: str) -> None:
    both.same_part("messages", node, listener, str(ws()))


# Chromium


def chromium(place: Place) -> dict[str, Any]:
    """What the page of programs/page.html got in the clear and over TLS, by listener."""
    browser = program("chromium")
    number = hashlib.sha256(place.label.encode()).hexdigest()[:8]

    def page(listener: str, following: str = "") -> str:
        own = place.url("/http/page", listener)
        query = {
            "other": own.removesuffix("/http/page")
            .replace("localhost", "other.localhost")
            .replace("127.0.0.1", "localhost"),
            "ws": place.url("/ws/echo", listener, "ws"),
            "report": f"/http/report/{number}-{listener}",
            "next": following,
        }
        return f"{own}?{urlencode(query)}"

    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--ignore-certificate-errors")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions")
    with tempfile.TemporaryDirectory(prefix="lbgen-chromium-", ignore_cleanup_errors=True) as profile:
        argv = (browser, *flags, *quiet, f"--user-data-dir={profile}", "--no-proxy-server", page(PLAIN, page(SECURE)))
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return {each: _report(place, f"/http/report/{number}-{each}") for each in (PLAIN, SECURE)}
            finally:
                process.terminate()


def _report(place: Place, path: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with urllib.request.urlopen(place.url(path), timeout=5) as answer:
            found = json.load(answer)
        if found is not None:
            return found
        time.sleep(0.1)
    return {}


def without_names(part: Any) -> Any:
    """Without the fields in which a browser tells where the page is from: origin, sec-*, what it decodes over TLS."""
    if isinstance(part, dict) and isinstance(part.get("body"), dict):
        return {**part, "body": {key: value for key, value in part["body"].items() if key != "fields"}}
    return part


PAGE = ("get", "raw query", "json", "compressed", "redirect", "upload", "refused", "cookies", "progress", "events")
CORS = ("cors, simple", "cors, preflight", "cors, by the endpoint", "cors, method refused", "cors, none")


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize("work", [*PAGE, "websocket", *CORS, "page left", "protocol"])
def test_chromium(both: Both, work: str, listener: str) -> None:
    wanted, got = both.direct.once(chromium)[PLAIN][work], both.through.once(chromium)[listener].get(work, "no report")
    if work == "protocol":
        assert got == ("h2" if listener == SECURE else "http/1.1")
    else:
        assert_equal(without_names(wanted), without_names(got), both.through)
