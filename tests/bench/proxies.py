"""Proxies under measurement: an expert's or lbgen's configuration in a folder, run as one worker on one core."""

from __future__ import annotations

import os
import re
import resource
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lbgen
from lbgen.bench.rounds import group_cpu, group_memory, process_memory
from lbgen.engines.api import Binary, Engine
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import render_with
from lbgen.plan.overlay import with_ports, with_version
from lbgen.runtime.common.certificates import write_self_signed
from lbgen.runtime.common.executables import candidates, environment_variable, find, supported_version
from lbgen.runtime.common.processes import group_members
from lbgen.runtime.local import network
from lbgen.runtime.local.network import ip
from lbgen.runtime.local.spawn import User, spawn, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import ProcessSpec
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.spawn import Process

HERE = Path(__file__).parent
SHOP = HERE.parents[1] / "examples" / "shop" / "topology.yaml"
ENGINES = ("nginx", "haproxy", "envoy", "traefik")
EXPERT_PORT, LBGEN_PORT, ENDPOINT_PORT = 8080, 8081, 9000
PROXY_CORE, LOAD_CORE = (1, 0) if (os.cpu_count() or 1) > 1 else (0, 0)
_STOP_SECONDS = 5.0
_DESCRIPTORS = 65_536
# One worker: the others take it from the one core that they are given.
_WORKERS = re.compile(r"^(\s*worker_processes) [^;]+;", re.MULTILINE)
_CODE = {".js", ".lua", ".go", ".mod"}


class BenchError(Exception):
    """A figure that cannot be had, with the reason."""


@dataclass(frozen=True)
class Build:
    """An executable of an engine, and the version that lbgen renders for it."""

    engine: str
    binary: Binary
    version: str

    @property
    def label(self) -> str:
        """`nginx 1.31.3`."""
        return f"{self.engine} {self.binary.version}"

    @property
    def target(self) -> Engine:
        return engine_by_name(self.engine)


def find_builds(engines: tuple[str, ...], paths: dict[str, list[str]]) -> list[Build]:
    """What is measured: the executables at `paths` (by engine); without any the newest of each engine, and of nginx
    every one, as its cost depends on the C library."""
    found = []
    for name in engines:
        target = engine_by_name(name)
        if name in paths:
            binaries = [_binary_at(target, path) for path in paths[name]]
        else:
            every = [each for each in candidates(target) if supported_version(target, each)]
            binaries = list({each.version: each for each in reversed(every)}.values())[::-1]
            binaries = binaries if name == "nginx" else binaries[:1]
        found += [Build(name, binary, supported_version(target, binary)) for binary in binaries]
    return found


def endpoint_binary() -> Binary:
    """The newest nginx here: it plays the endpoint of every engine, whichever is measured."""
    return find(engine_by_name("nginx"))[0]


def isolate() -> None:
    """Enter an empty network where this process may, and raise its limit of descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # root may, and HAProxy takes two descriptors for a connection
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        limit = _DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if not network.why_unavailable():
        network.enter()
        ip("link set lo up")


def _binary_at(target: Engine, path: str) -> Binary:
    variable = environment_variable(target.name)
    before = os.environ.get(variable)
    os.environ[variable] = path
    try:
        return candidates(target)[0]
    finally:
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before


@dataclass(frozen=True)
class Proxy:
    """A configuration in `folder`, ready to run."""

    name: str
    build: Build
    folder: Path
    spec: ProcessSpec
    port: int
    tls: bool = False

    def url(self, path: str = "/data.json") -> str:
        # A name, as some configurations refuse clients that send none in the handshake.
        return f"https://localhost:{self.port}{path}" if self.tls else f"http://127.0.0.1:{self.port}{path}"


def plan_of(source: Path | dict[str, object], build: Build, port: int = LBGEN_PORT, base: Path | None = None) -> Plan:
    """The plan of a topology, its listener `web` on `port`."""
    made = lbgen.plan(lbgen.load(source, base=base))
    return with_version(with_ports(made, {"web": port}), build.engine, build.version)


def render_proxy(name: str, plan: Plan, build: Build, folder: Path) -> Proxy:
    """lbgen's files of `plan`."""
    folder.mkdir(parents=True)
    render_with(build.target, plan, build.version, ("all",)).write(folder)
    listener = plan.listener("web")
    return _proxy(name, plan, build, folder, listener.port, tls=listener.tls is not None)


def copy_expert(case: str, plan: Plan, build: Build, folder: Path) -> Proxy:
    """The hand-tuned files for the case; `plan` tells what the engine is started with (modules)."""
    shutil.copytree(HERE / "expert" / build.engine / case, folder)
    if case.startswith("tls"):
        write_certificate(folder)
    return _proxy(f"expert {case}", plan, build, folder, EXPERT_PORT, tls=case.startswith("tls"))


def write_certificate(folder: Path) -> None:
    """cert.pem and key.pem (ECDSA P-256), and both in one file as HAProxy reads them."""
    certificate, key, both = (folder / name for name in ("cert.pem", "key.pem", "cert-key.pem"))
    write_self_signed(certificate, key, ("localhost",))
    both.write_bytes(certificate.read_bytes() + key.read_bytes())


def _proxy(name: str, plan: Plan, build: Build, folder: Path, port: int, *, tls: bool) -> Proxy:
    for config in folder.rglob("*.conf"):
        config.write_text(_WORKERS.sub(r"\1 1;", config.read_text(encoding="utf-8")), encoding="utf-8")
    return Proxy(name, build, folder, build.target.process(plan, build.binary, folder), port, tls=tls)


def count_lines(folder: Path) -> tuple[int, int]:
    """Lines of configuration that an engine reads, without blank ones and comments; and all lines of code (scripts,
    plugins) beside it."""
    config = code = 0
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.name == ".lbgen-files" or file.suffix == ".pem":
            continue
        lines = file.read_text(encoding="utf-8").splitlines()
        if file.suffix in _CODE or "plugins-local" in file.parts:
            code += len(lines)
        else:
            config += sum(1 for line in map(str.strip, lines) if line and not line.startswith("#"))
    return config, code


@dataclass(frozen=True)
class Running:
    """A started proxy: the leader of its process group."""

    proxy: Proxy
    process: Process

    def pids(self) -> list[int]:
        return [member.pid for member in group_members(self.process.pid)]

    def cpu(self) -> float:
        """CPU seconds (user and system) of all its processes until now."""
        return group_cpu([self.process.pid])

    def memory(self) -> float:
        """MiB of all its processes; what they share counts once (PSS)."""
        return group_memory([self.process.pid])

    def largest_process(self) -> float:
        """MiB of its largest process, with what it shares with others (RSS)."""
        return max(process_memory(pid, "Rss") for pid in self.pids())

    def log(self) -> str:
        """The last lines of its output."""
        text = (self.proxy.folder / "output.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-8:])[-2000:]


@contextmanager
def running(proxy: Proxy) -> Iterator[Running]:
    """Start the proxy pinned to its core; it ends with the block, or with this process."""
    argv = ("taskset", "-c", str(PROXY_CORE), *proxy.spec.argv)
    env = {**dict(proxy.spec.env), "GOMAXPROCS": "1"}
    if proxy.build.engine == "envoy":
        argv += ("--concurrency", "1")
    with (proxy.folder / "output.log").open("wb") as output:
        process = spawn(argv, user=User(), directory=proxy.folder, output=output, env=env)
    try:
        yield Running(proxy, process)
    finally:
        stop(process, proxy.spec.stop, _STOP_SECONDS)
