"""The agent: checks all endpoints concurrently, writes their shares to the engine's files and has it load them; and
counts requests (`lbgen.agent.metrics`).

It reads the engine's pid file for each signal, so that the engine may restart.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lbgen.agent import conntrack, probe, state_file
from lbgen.agent.certificate_store import CertificateStore
from lbgen.agent.state_file import Health, apply_check, next_growth
from lbgen.agent.steering import (
    COUNT_SECONDS,
    EngineFiles,
    average,
    differ,
    shares,
    steered_engine,
    steering,
    without_full,
)
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines import acme_spec, metrics_spec
from lbgen.engines.agent_spec import FILE, FORMAT, AgentSpec, CheckedPool, Target

if TYPE_CHECKING:
    import ssl

_Spec = TypeVar("_Spec", AgentSpec, metrics_spec.MetricsSpec, acme_spec.AcmeSpec)
# Modules that the standard library imports on first use.
_LATE = ("concurrent.futures.thread", "encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_8")
CERTIFICATES = "certificates"  # the folder of those of ACME, where none is named
_GATHER_SECONDS = 0.05  # changes within this time are one reload
_APART_SECONDS = 0.5  # the engine's old workers remain for a while after each reload
_NOTICE_SECONDS = 1.0
_SPREAD_SECONDS = 0.01  # between the first checks of two endpoints


def load(path: Path, kind: type[_Spec], own: int) -> _Spec:
    """The specification in a file, of the format that is `own`. Raises EngineError LB410 when it is missing, malformed
    or of another one."""
    try:
        spec = msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        hint = "render a topology with `metrics`, or with `health.active` for an engine that has no checks of its own"
        raise EngineError(Diagnostic("LB410", f"{path}: {error.strerror}", hint=hint)) from None
    except msgspec.DecodeError as error:
        raise EngineError(Diagnostic("LB410", f"{path}: {error}")) from None
    if spec.format != own:
        raise EngineError(Diagnostic("LB410", f"{path} has format {spec.format}, and this lbgen reads {own}"))
    return spec


def import_modules(name: str, folder: Path) -> None:
    """Import all modules that the agent of that engine needs for the specifications in `folder`, before the process
    drops its privileges."""
    if (folder / FILE).is_file():
        steered_engine(name).set_weights({}, {})
    if (folder / metrics_spec.FILE).is_file():
        from lbgen.agent.metrics import import_modules as import_metrics  # with Prometheus' library, only if needed

        import_metrics(name)
    if (folder / acme_spec.FILE).is_file():
        from lbgen.agent.acme import import_modules as import_acme  # with its library, only if needed

        import_acme()
    for module in _LATE:
        import_module(module)


class _NewSpecError(Exception):
    """A specification file was replaced."""


def _identity(path: Path) -> tuple[int, ...]:
    """The identity of the file at `path`, which a replaced file does not share; () without a file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


class Agent:
    """`folder` has the engine's files. States start as the last agent left them, else as up."""

    def __init__(self, spec: AgentSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.states: dict[tuple[str, str], Health] = {}
        self._averages: dict[tuple[str, int], float] = {}  # connections by endpoint
        self._loads: Mapping[str, Mapping[str, int]] = {}  # percent by pool and endpoint
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._shown = ""
        self._ended: set[str] = set()  # endpoints whose flows were ended, until they are up again
        self._changed = asyncio.Event()
        self._steered = steered_engine(self.spec.engine)
        before = state_file.last_states(self.folder)
        self._files = EngineFiles(self.spec, self.folder, self._steered, log, resumed=bool(before))
        now = time.time()
        for pool in self.spec.pools:
            for each in pool.targets:
                self.states[pool.name, each.name] = before.get((pool.name, each.name), Health(now))
            if pool.tls is not None:
                self._contexts[pool.name] = _context(pool, self.folder)

        # Endpoints that the last agent had.
        self._gone = {name for _, name in before} - {name for _, name in self.states}

    async def run(self) -> None:
        """Run until cancelled. Raises OSError when the files cannot be written."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._steer())
            group.create_task(self._beat())
            if self.spec.balanced:
                group.create_task(self._count())
            number = 0
            for pool in self.spec.pools:
                for target in pool.targets:
                    wait = (number * _SPREAD_SECONDS) % (pool.interval / 1000)
                    group.create_task(self._watch(pool, target, wait))
                    number += 1

    async def _watch(self, pool: CheckedPool, target: Target, wait: float) -> None:
        """Check one endpoint at its interval, counted from the start of each check."""
        key = pool.name, target.name
        await asyncio.sleep(wait)
        while True:
            begun = asyncio.get_running_loop().time()
            error = await probe.check(pool, target, self._contexts.get(pool.name))
            before = self.states[key]
            after = apply_check(before, error, time.time(), fall=pool.fall, rise=pool.rise)
            self.states[key] = after
            if after.up != before.up:
                how = f"down after {pool.fall} failed checks: {error}" if error else f"up after {pool.rise} good checks"
                log(f"{pool.name} {target.name} {how}")
                self._changed.set()
            took = asyncio.get_running_loop().time() - begun
            await asyncio.sleep(max(0.0, pool.interval / 1000 - took))

    async def _count(self) -> None:
        """Count connections, and have the shares loaded that follow from them; less often where a count takes long."""
        failure = ""
        while True:
            begun = asyncio.get_running_loop().time()
            try:
                counts = await asyncio.to_thread(conntrack.count_connections)
            except OSError as error:
                if str(error) != failure:
                    log(f"connections cannot be counted: {error}")
                failure = str(error)
            else:
                failure = ""
                self._averages = average(self._averages, counts)
                found = {
                    pool.name: without_full(pool, shares(pool, self._averages), counts) for pool in self.spec.balanced
                }
                if differ(self._loads, found):
                    self._loads = found
                    self._changed.set()
            took = asyncio.get_running_loop().time() - begun
            await asyncio.sleep(max(COUNT_SECONDS, 5 * took))

    async def _steer(self) -> None:
        """Write shares and reload the engine: at the start, after a change, and at each step of a slow start."""
        while True:
            self._changed.clear()
            self._apply()
            if self.spec.tracked:
                await self._end_flows()
            shown = state_file.to_json(self.spec, self.states)
            if shown != self._shown:
                state_file.replace_file(self.folder / state_file.FILE, shown)
                self._shown = shown
            now = time.time()
            steps = (
                next_growth(self.states[p.name, t.name], now, p.slow_start) for p in self.spec.pools for t in p.targets
            )
            soonest = min((step for step in steps if step is not None), default=now if self._files.unloaded else None)
            try:
                async with asyncio.timeout(None if soonest is None else max(_APART_SECONDS, soonest - now)):
                    if not self.spec.command:
                        await asyncio.sleep(_APART_SECONDS)
                    await self._changed.wait()
                    await asyncio.sleep(_GATHER_SECONDS)
            except TimeoutError:
                continue

    def _apply(self) -> None:
        self._files.replace(steering(self.spec, self.states, self._steered, self._loads))

    async def _end_flows(self) -> None:
        """End what the kernel would go on sending to endpoints that are down, or no longer in the topology."""
        down = {name for (_, name), health in self.states.items() if not health.up} | self._gone
        places = [_place(name) for name in sorted(down - self._ended)]
        self._ended = down
        if places:
            try:
                count = await asyncio.to_thread(conntrack.end_flows, places)
            except OSError as error:
                log(f"flows cannot be ended: {error}")
            else:
                log(f"ended {count} flows")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(state_file.BEAT_SECONDS)
            state_file.touch(self.folder)


def _place(name: str) -> tuple[str, int]:
    """Address and port of an endpoint's name."""
    host, _, port = name.rpartition(":")
    return str(ip_address(host.strip("[]"))), int(port)


def _context(pool: CheckedPool, folder: Path) -> ssl.SSLContext:
    assert pool.tls is not None  # noqa: S101 - the caller checks
    try:
        return probe.tls_context(pool.tls, folder, http2=pool.http2)
    except OSError as error:  # also for files that are not PEM
        message = f"the certificates of pool {pool.name} cannot be used: {error.strerror or error}"
        raise EngineError(Diagnostic("LB410", message)) from None


def log(text: str) -> None:
    """One line of the agent's log."""
    sys.stderr.write(f"{time.strftime('%F %T')} {text}\n")
    sys.stderr.flush()


def serve(folder: Path, certificates: Path | None = None) -> None:
    """Run the agent for the specifications in `folder` until SIGTERM or SIGINT; follow replaced ones.

    `certificates` is where those of ACME are kept; by default in `$STATE_DIRECTORY`, as systemd sets it, else in
    `folder`. Raises EngineError LB410 when a specification or the engine's files cannot be used.
    """
    asyncio.run(_serve(folder, certificates or Path(os.environ.get("STATE_DIRECTORY") or folder / CERTIFICATES)))


async def _serve(folder: Path, certificates: Path) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in one
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        while True:
            seen = _specifications(folder)
            parts = _parts(folder, certificates)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_notice(folder, seen))
                    for part in parts:
                        group.create_task(part)
            except ExceptionGroup as errors:
                _, others = errors.split(_NewSpecError)
                if others is not None:
                    raise _explained(others, folder) from None
            log("there is a new specification")
    log("ends")


def _specifications(folder: Path) -> tuple[tuple[int, ...], ...]:
    return tuple(_identity(folder / name) for name in (FILE, metrics_spec.FILE, acme_spec.FILE))


async def _notice(folder: Path, seen: tuple[tuple[int, ...], ...]) -> None:
    """Raise once a specification file is replaced or new."""
    while all(now in ((), before) for now, before in zip(_specifications(folder), seen, strict=True)):
        await asyncio.sleep(_NOTICE_SECONDS)
    raise _NewSpecError


def _parts(folder: Path, certificates: Path) -> list[Coroutine[None, None, None]]:
    """What there is to do: to check endpoints, to count requests, to keep certificates. Raises EngineError LB410."""
    parts = []
    if (folder / metrics_spec.FILE).is_file():
        from lbgen.agent import metrics  # Prometheus' library is loaded for nothing else

        order = load(folder / metrics_spec.FILE, metrics_spec.MetricsSpec, metrics_spec.FORMAT)
        parts.append(metrics.Metrics(order, folder, log).run())
        log(f"counts requests of {order.engine}")
    if (folder / acme_spec.FILE).is_file():
        from lbgen.agent import acme  # its library is loaded for nothing else

        wanted = load(folder / acme_spec.FILE, acme_spec.AcmeSpec, acme_spec.FORMAT)
        certificates.mkdir(mode=0o700, parents=True, exist_ok=True)
        parts.append(acme.CertificateKeeper(wanted, folder, CertificateStore(certificates), log).run())
        log(f"keeps {len(wanted.certificates)} certificates; answers challenges on port {wanted.port}")
    if (folder / FILE).is_file() or not parts:
        agent = Agent(load(folder / FILE, AgentSpec, FORMAT), folder)
        parts.append(agent.run())
        log(f"checks {len(agent.states)} endpoints of {len(agent.spec.pools)} pools for {agent.spec.engine}")
        if agent.spec.balanced:
            log(f"counts connections of {len(agent.spec.balanced)} pools")
    return parts


def _explained(errors: ExceptionGroup[Exception], folder: Path) -> Exception:
    """An error of our own files as EngineError; any other error unchanged."""
    first: Exception = errors
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    if not isinstance(first, OSError):
        return errors
    return EngineError(Diagnostic("LB410", f"{first.filename or folder}: {first.strerror or first}"))
