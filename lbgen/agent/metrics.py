"""Counts an engine's requests from its metrics log, and serves the counts as Prometheus text.

What was counted is saved with the place in the log, and only then is the log's space given back: a restarted agent
counts each line once.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from lbgen.agent import metric_names as names
from lbgen.agent import state_file
from lbgen.agent.admin_client import fetch_text
from lbgen.agent.counters import Counters
from lbgen.agent.log_tail import LogTail
from lbgen.engines.api import engine
from lbgen.engines.health import Condition, State, Watched
from lbgen.engines.metrics_spec import L4_MARK, CountedListener, MetricsSpec, connection_record

STATE = "metrics.state.json"
_LOOK_SECONDS = 0.2  # between two looks at the log
_SAVE_SECONDS = 1.0
_CLIENT_SECONDS = 10  # for a scrape to send its request and to take the answer
_BIND_SECONDS = 0.5  # between two attempts to bind


class Metrics:
    """The counts of one engine. `collect` is for the HTTP server, which runs on threads of its own."""

    def __init__(self, spec: MetricsSpec, folder: Path, log: Callable[[str], None]) -> None:
        self.spec = spec
        self.folder = folder
        self.log = log
        self.counters = Counters(spec)
        self._tail = LogTail(folder / spec.log)
        self._lock = threading.Lock()
        self._saved = (0, -1)
        self._frees = True
        self._restore()
        self._parse = engine(spec.engine).access_record

    async def run(self) -> None:
        """Count and serve until cancelled. Raises OSError when the files cannot be read or written."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._serve())
            group.create_task(self._count_on())

    async def _count_on(self) -> None:
        """Count and save again and again; at the end everything that is written by then."""
        saved = time.monotonic()
        try:
            while True:
                read = self.count()
                if time.monotonic() - saved >= _SAVE_SECONDS:
                    self.save()
                    saved = time.monotonic()
                await asyncio.sleep(0 if read else _LOOK_SECONDS)
        finally:
            while self.count():
                pass
            self.save()
            self._tail.close()

    async def _serve(self) -> None:
        """The HTTP server. An agent that is about to end may still have the port."""
        registry = CollectorRegistry()
        registry.register(self)
        waits = False
        while True:
            try:
                server, thread = start_http_server(self.spec.port, self.spec.address, registry)
                break
            except OSError as error:
                if not waits:
                    self.log(f"cannot serve metrics on {self.spec.address}:{self.spec.port} yet: {error.strerror}")
                waits = True
                await asyncio.sleep(_BIND_SECONDS)
        server.RequestHandlerClass.timeout = _CLIENT_SECONDS  # type: ignore[attr-defined]  # of StreamRequestHandler
        self.log(f"serves metrics on {self.spec.address}:{self.spec.port}")
        try:
            await asyncio.Event().wait()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def count(self) -> bool:
        """Count the next lines of the log; False when there are none. Raises OSError."""
        found = self._tail.read()
        if not found:
            return False
        if self.spec.relay:
            with (self.folder / self.spec.relay).open("ab") as stream:
                stream.write(found)
        lines = found.decode("utf-8", "replace").splitlines()
        with self._lock:
            for line in lines:
                self._count_line(line)
        return True

    def _count_line(self, line: str) -> None:
        if not line.startswith("{"):  # an engine's own message, such as that of HAProxy that a process ends
            return
        try:
            if line.startswith(L4_MARK):
                connection = connection_record(line)
                if connection is not None:
                    self.counters.add_connection(connection)
                return
            record = self._parse(line)
            if record is not None:
                self.counters.add_request(record)
                return
        except (ValueError, LookupError, TypeError, AttributeError):  # cut, or of another version
            pass
        self.counters.unread += 1

    def save(self) -> None:
        """Save the counts and the place in the log, then free what was read. Raises OSError."""
        now = (self._tail.inode, self._tail.at)
        if now == self._saved:
            return
        with self._lock:
            data = {"inode": self._tail.inode, "at": self._tail.at, **self.counters.to_data()}
        state_file.replace_file(self.folder / STATE, json.dumps(data))
        self._saved = now
        if self._frees and not self._tail.free():
            self._frees = False
            self.log(f"the file system cannot free what was read of {self.spec.log}, which grows")

    def _restore(self) -> None:
        try:
            data = json.loads((self.folder / STATE).read_bytes())
        except OSError:
            return
        except ValueError:
            self.log(f"{STATE} cannot be read; counts begin at 0")
            return
        try:
            self.counters.restore(data)
            self._tail.inode, self._tail.at = int(data["inode"]), int(data["at"])
        except (LookupError, TypeError, ValueError):
            self.counters = Counters(self.spec)
            self.log(f"{STATE} is of another version; counts begin at 0")

    def collect(self) -> Iterator[Metric]:
        """All metrics, in the order of `metric_names.FAMILIES`."""
        with self._lock:
            counted = list(self._counted())
        found = {each.name: each for each in (*counted, self._info(), self._connections(), self._states())}
        for family in names.FAMILIES:
            yield found[family.name.removesuffix("_total")]

    def _counted(self) -> Iterator[Metric]:
        for family in names.FAMILIES:
            if family is names.UNREAD:
                yield CounterMetricFamily(family.name, family.help, value=self.counters.unread)
            elif family.type == "counter":
                counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
                for labels, count in self.counters.series(family):
                    counter.add_metric(labels, count)
                yield counter
            elif family.type == "histogram":
                made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                for labels, each in sorted(self.counters.histograms[family.name].items()):
                    made.add_metric(labels, each.cumulative(), each.total)
                yield made

    def _info(self) -> Metric:
        made = _gauge(names.INFO)
        made.add_metric((self.spec.stack, self.spec.engine, self.spec.version), 1)
        return made

    def _connections(self) -> Metric:
        made = _gauge(names.CONNECTIONS)
        for name, count in count_connections(self.spec.listeners).items():
            made.add_metric((name,), count)
        return made

    def _states(self) -> Metric:
        made = _gauge(names.ENDPOINT_STATE)
        for (pool, endpoint), now in self._endpoint_states().items():
            for state in State:
                made.add_metric((pool, endpoint, str(state)), int(state is now))
        return made

    def _endpoint_states(self) -> dict[tuple[str, str], State]:
        """By pool and name. What the agent checked comes before what the engine says."""
        checked = state_file.read(self.folder)
        said = self._engine_conditions()
        found = {}
        for pool in self.spec.pools:
            for index, (name, address) in enumerate(pool.endpoints):
                condition = checked.get((pool.name, address)) or said.get((pool.name, index))
                state = State.UNKNOWN if condition is None else condition.state
                if state is State.UP and not pool.judged:  # nothing checks it
                    state = State.UNKNOWN
                found[pool.name, name] = state
        return found

    def _engine_conditions(self) -> Mapping[tuple[str, int], Condition]:
        target = engine(self.spec.engine)
        if self.spec.admin_port is None or not isinstance(target, Watched):
            return {}
        said = fetch_text(self.spec.admin_port, target.status_paths)
        pools = {pool.name: tuple(address for _, address in pool.endpoints) for pool in self.spec.pools}
        return {} if said is None else target.health(pools, said)


def _gauge(family: names.Family) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.help, labels=family.labels)


def import_modules(name: str) -> None:
    """Import all modules that counting for that engine needs, before the process drops its privileges."""
    target = engine(name)
    target.access_record("{}")
    if isinstance(target, Watched):
        target.health({}, dict.fromkeys(target.status_paths, ""))


_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in the table of IPv6
_FOLDER = Path("/proc/self/net")


def count_connections(listeners: Sequence[CountedListener], folder: Path = _FOLDER) -> dict[str, int]:
    """Established connections by listener, in the network namespace of this process. UDP listeners have none."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for each in listeners:
        if each.port:
            wanted.setdefault(f"{each.port:04X}", []).append((each.name, _hex(each.address)))
    found = {each.name: 0 for each in listeners if each.port}
    for table in ("tcp", "tcp6"):
        try:
            lines = (folder / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # a kernel without IPv6
            continue
        for line in lines:
            _, local, _, state, _ = line.split(maxsplit=4)
            address, _, port = local.partition(":")
            if state == _ESTABLISHED and port in wanted:
                address = address.removeprefix(_MAPPED) if len(address) > 8 else address
                # An exact address before a listener on all of them.
                rows = sorted(wanted[port], key=lambda x: x[1] == "")
                name = next((name for name, own in rows if own in ("", address)), None)
                if name is not None:
                    found[name] += 1
    return found


def _hex(address: str) -> str:
    """An address as the table has it: words of the host's byte order; "" for any address."""
    parsed = ip_address(address)
    if parsed.is_unspecified:
        return ""
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    words = struct.unpack(f"={len(parsed.packed) // 4}I", socket.inet_pton(family, address))
    return "".join(f"{word:08X}" for word in words)
