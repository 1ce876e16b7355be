"""Where clients go: to the endpoints directly, or through an engine that serves tests/clients/*.yaml."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.api import Level, engine
from lbgen.engines.rendered import render_with
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common import certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.network import Network, network
from lbgen.runtime.local.process import run_engine
from lbgen.spec.load import load
from tests.clients.habits import unexpected
from tests.support import farm

if TYPE_CHECKING:
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan
    from lbgen.spec.load import Topology

HERE = Path(__file__).parent
FIRST_PORT = int(os.environ.get("LBGEN_CONFORMANCE_PORTS", "23500"))
PLAIN, CLEAR, SECURE = "plain", "clear", "secure"  # listeners: HTTP/1.1; HTTP/2 with prior knowledge; TLS
# What a proxy may add, change or leave out in a request that it forwards (contract, section 4).
HOPS = frozenset(("connection", "keep-alive", "te", "transfer-encoding", "content-length", "upgrade", "expect"))
ADDED = frozenset(
    ("host", "via", "accept-encoding", "x-request-id", "http2-settings", "x-forwarded-for", "x-forwarded-proto")
)
_PLACE = re.compile(r"https?://(127\.0\.0\.1|localhost):[0-9]+")  # in Origin, Referer
FORWARDED = frozenset(("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"))
OWN = HOPS | ADDED | FORWARDED
ANSWER_OWN = HOPS - {"content-length"} | {"date", "via", "alt-svc", "trailer", "x-sum"}  # x-sum is a trailer


@dataclass
class Place:
    """Host and ports of what serves; `direct` has the ports of endpoints, by the first part of a path."""

    label: str
    folder: Path  # ca.crt, and what clients leave
    ports: dict[str, int]
    host: str = "127.0.0.1"
    direct: bool = False
    results: dict[Any, Any] = field(default_factory=dict)  # of what is done once here
    gaps: dict[str, str] = field(default_factory=dict)  # servers that are not here, and why

    def address(self, path: str, listener: str = PLAIN) -> tuple[str, int]:
        """A name that the certificate has, and a port."""
        if not self.direct:
            return ("localhost" if listener == SECURE else self.host), self.ports[listener]
        _, dot, pool = path.split("/")[1].rpartition(".")
        pool = pool.lower()
        return self.host, self.ports[pool if pool in self.ports else "grpc" if dot else "http"]

    def has(self, listener: str) -> None:
        """Skip the test of a listener that the engine cannot have."""
        if not self.direct and listener not in self.ports:
            pytest.skip(f"{self.label} has no listener for HTTP/2 without TLS")

    def url(self, path: str, listener: str = PLAIN, scheme: str = "http") -> str:
        host, port = self.address(path, listener)
        return f"{scheme}{'s' if self.is_tls(listener) else ''}://{host}:{port}{path}"

    def is_tls(self, listener: str) -> bool:
        return listener == SECURE and not self.direct

    def once(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """What `work` returned here at first."""
        key = (work, given, tuple(named.items()))
        if key not in self.results:
            try:
                self.results[key] = work(self, *given, **named)
            except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - raised below, at each part of the work
                self.results[key] = error
        if isinstance(self.results[key], BaseException):
            raise self.results[key]
        return self.results[key]


@dataclass
class Both:
    """The same clients directly and through an engine."""

    direct: Place
    through: Place

    def same(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Do `work` at both; what comes back is equal. Returns it."""
        wanted = self.direct.once(work, *given, **named)
        got = work(self.through, *given, **named)
        assert_equal(wanted, got, self.through)
        return got

    def same_part(self, part: str, work: Callable[..., Any], *given: Any) -> Any:
        """Of work that is done once at both and has several parts: this one is equal. Returns it."""
        wanted, got = self.direct.once(work, *given), self.through.once(work, *given)
        assert_equal(wanted[part], got.get(part, "was not done"), self.through)
        return got[part]

    def stats(self) -> dict[str, int]:
        """What is open at the endpoints: requests by their path, `sockets`; `cancelled` calls so far."""
        with urllib.request.urlopen(self.direct.url("/http/stats"), timeout=5) as answer:
            return json.load(answer)

    def wait_for(self, name: str, value: int) -> None:
        """Until that value of `stats` is `value`."""
        self.until(lambda: self.stats().get(name, 0) == value, f"{name} is not {value}")

    def until(self, happened: Callable[[], bool], what: str = "it did not happen", seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"{what} after {seconds:g} s"
            time.sleep(0.05)


def assert_equal(wanted: Any, got: Any, through: Place) -> None:
    found = unexpected(differences(comparable(wanted), comparable(got)), through.label)
    assert not found, "\n".join(found[:4])


def comparable(value: Any) -> Any:
    """Without ports, and without the fields that a proxy may add or change: in accounts of the echo endpoint, and in
    lists of fields that are called `answer`."""
    if isinstance(value, dict) and "sha" in value and "fields" in value:
        return {**value, "fields": _without(value["fields"], OWN)}
    if isinstance(value, dict):
        kept = {key: comparable(each) for key, each in value.items() if key != "answer"}
        return kept | ({"answer": _without(value["answer"], ANSWER_OWN)} if "answer" in value else {})
    return [comparable(each) for each in value] if isinstance(value, list | tuple) else value


def differences(wanted: Any, got: Any, place: str = "") -> Iterator[str]:
    """What differs, a line each, with its place in the value."""
    if isinstance(got, dict) and "error" in got and got != wanted:
        yield f"{place}.error: {got['error']!r}, directly {_short(wanted)}".lstrip(".")
    elif isinstance(wanted, dict) and isinstance(got, dict):
        for key in sorted(wanted.keys() | got.keys(), key=lambda key: (key != "status", key)):
            yield from differences(wanted.get(key), got.get(key), f"{place}.{key}".lstrip("."))
    elif wanted != got and isinstance(wanted, list) and isinstance(got, list):
        lacking, more = [x for x in wanted if x not in got], [x for x in got if x not in wanted]
        yield f"{place}: lacks {lacking}, has {more}" if lacking or more else f"{place}: {got}, directly {wanted}"
    elif wanted != got:
        yield f"{place}: {_short(got)}, directly {_short(wanted)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}..."


def _without(fields: Any, names: frozenset[str]) -> list[tuple[str, str]]:
    return sorted((name.lower(), _PLACE.sub("", value)) for name, value in fields if name.lower() not in names)


def read(name: str, folder: Path, variables: Mapping[str, object], subject: EngineUnderTest, *extra: str) -> Plan:
    """The plan of a topology file of this folder, without the fields `extra` where the engine refuses the first of
    them. The certificates are in `folder`."""
    words = {key: str(value) for key, value in variables.items()}
    return plan_for(subject, load(HERE / name, variables=words), folder, *extra)


def plan_for(subject: EngineUnderTest, loaded: Topology, folder: Path, *extra: str) -> Plan:
    """As `read`, of a topology that is loaded."""
    topology = replace(loaded, base=folder)
    if extra[0] in refusal(subject, resolve(topology), "all"):
        topology = replace(topology.without(*extra), base=folder)
    return resolve(topology)


@cache
def subjects(feature: Feature) -> tuple[EngineUnderTest, ...]:
    """Each executable here of an engine with that feature, and HAProxy 3.2 of the farm; engines without any, too."""
    found = list(engines_on_host())
    extra = farm.fetched("haproxy", "3.2")
    if extra is not None and not any(x.binary and (x.engine, x.version) == ("haproxy", "3.2") for x in found):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{extra}{os.pathsep}{os.environ.get('PATH', '')}")
            found += engines_on_host(("haproxy@3.2",))
    able = [x for x in found if engine(x.engine).verdict(feature, x.version or None).level is not Level.REFUSED]
    here = [x for x in able if x.binary is not None and not x.gap]
    names = {x.engine for x in here}
    gaps = {x.engine: x for x in able if x.engine not in names and x.engine != "keepalived"}
    return (*here, *gaps.values())


def sample(every: Sequence[EngineUnderTest]) -> tuple[EngineUnderTest, ...]:
    """One executable of each engine."""
    return tuple({subject.engine: subject for subject in reversed(every)}.values())


def name(subject: EngineUnderTest) -> str:
    """`nginx 1.31`."""
    return f"{subject.engine} {subject.version}".strip()


@contextmanager
def endpoints(*hosts: str) -> Iterator[dict[str, int]]:
    """The ports of tests.clients.endpoints, which serves for as long as the block lasts."""
    argv = (sys.executable, "-m", "tests.clients.endpoints", *hosts)
    with subprocess.Popen(argv, cwd=HERE.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


class Places:
    """Everything that serves: what is asked for is started, and stays until `close`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lbgen-clients-")))
        self.folder.chmod(0o755)
        certificates.make(self.folder, (certificates.Spec("local", ("localhost", "other.localhost", "127.0.0.1")),))
        self._by_name: dict[str, Place] = {}
        self._next_port = FIRST_PORT
        self._network: Network | None = None

    def close(self) -> None:
        self._stack.close()

    def free_port(self) -> int:
        self._next_port = free_port("127.0.0.1", self._next_port) + 1
        return self._next_port - 1

    @property
    def direct(self) -> Place:
        if "direct" not in self._by_name:
            ports = self._stack.enter_context(endpoints("127.0.0.1"))
            self._by_name["direct"] = Place("direct", self.folder, ports, direct=True)
        return self._by_name["direct"]

    def http(self, subject: EngineUnderTest) -> Both:
        def loaded(ports: dict[str, int]) -> Topology:
            return load(HERE / "http.yaml", variables={key: str(port) for key, port in ports.items()})

        return self.serve(subject, name(subject), loaded)

    def serve(
        self,
        subject: EngineUnderTest,
        label: str,
        loaded: Callable[[dict[str, int]], Topology],
        ready: str = "/http/echo",
    ) -> Both:
        """An engine with the topology of `loaded`, which is given the ports of endpoints and of listeners. `ready`: a
        path that the listener `plain` answers with 200."""
        if subject.binary is None:
            pytest.skip(subject.gap)
        if label not in self._by_name:
            own = {listener: self.free_port() for listener in (PLAIN, CLEAR, SECURE)}
            topology = loaded({**self.direct.ports, **own})
            plan = plan_for(subject, topology, self.folder, f"listeners.{CLEAR}.http2")
            own = {x.name: x.port for x in plan.listeners if x.name != CLEAR or x.http2}
            serving = run_engine(subject.engine, plan, subject.binary, version=subject.version, accept=("all",))
            self._stack.enter_context(serving)
            place = self._by_name[label] = Place(label, self.folder, own)
            _wait_serving(place, ready)
        return Both(self.direct, self._by_name[label])

    def servers(self) -> tuple[Place, Network | None]:
        """The servers of layer 4, and a network for nftables, from which they can be reached, where one can be."""
        if "servers" not in self._by_name:
            with suppress(EngineError):
                self._network = self._stack.enter_context(network())
            hosts = ("127.0.0.1", *((self._network.host,) if self._network else ()))
            from tests.clients import servers

            made = Place("the servers", self.folder, {}, direct=True)
            for name in ("postgres", "redis", "mysql"):
                port = self.free_port()
                try:
                    self._stack.enter_context(getattr(servers, name)(self.folder, hosts, port))
                except pytest.skip.Exception as gap:
                    made.gaps[name] = str(gap)
                else:
                    made.ports[name] = port
            made.ports["dns"] = made.ports["dns-udp"] = self._stack.enter_context(endpoints(*hosts))["dns"]
            self._by_name["servers"] = made
        return self._by_name["servers"], self._network

    def l4(self, subject: EngineUnderTest) -> Both:
        if subject.binary is None:
            pytest.skip(subject.gap)
        direct, inside = self.servers()
        label = f"{name(subject)}, L4"
        if label not in self._by_name:
            kernel = subject.engine == "nftables"
            if kernel and inside is None:
                pytest.skip("nftables needs root and network namespaces")
            names = ("postgres", "redis", "mysql", "dns")
            own = {each: self.free_port() for each in names}
            where = {"address": "127.0.0.1", "host": "127.0.0.1"}
            if kernel:  # it serves in a network of its own
                where = {"address": "0.0.0.0", "host": inside.host}  # noqa: S104
            listeners = {f"{each}_port": own[each] for each in names}
            words = {**dict.fromkeys(names, 1), **direct.ports, **where, **listeners}
            plan = read("l4.yaml", self.folder, words, subject, "listeners.dns-udp", "routes[dns-udp]")
            if len(plan.listeners) > len(own):
                own["dns-udp"] = own["dns"]
            serving = run_engine(subject.engine, plan, subject.binary, version=subject.version, accept=("all",),
                                 network=inside if kernel else None)  # fmt: skip
            handle = self._stack.enter_context(serving)
            self._by_name[label] = Place(label, self.folder, own, handle.address("dns")[0])
        return Both(direct, self._by_name[label])


def _wait_serving(place: Place, path: str) -> None:
    """Some engines listen before they know their routes."""
    end = time.monotonic() + 8
    while time.monotonic() < end:
        with closing(urllib.request.build_opener()) as opener:
            try:
                opener.open(place.url(path), timeout=2).close()
            except OSError:
                time.sleep(0.05)
            else:
                return


def refusal(subject: EngineUnderTest, plan: Plan, *accept: str) -> str:
    """Why the engine refuses the plan, where only `accept` is accepted; "" when it does not."""
    try:
        render_with(engine(subject.engine), plan, subject.version, accept)
    except LbgenError as error:
        return str(error)
    return ""


@cache
def program(command: str) -> str:
    """The path of a program; the test is skipped without it."""
    path = shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin")
    return path or pytest.skip(f"no {command} here")


def run(*argv: object, seconds: float = 60, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a client to its end."""
    words = [str(each) for each in argv]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds, **given)
