"""The engines and stand-ins of one stack, as child processes of its supervisor: start, reload, recover."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, without_errors
from lbgen.engines.api import Binary, engine_names
from lbgen.engines.health import Watched
from lbgen.plan.model import Plan
from lbgen.runtime.common import readiness, saved, state
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.health import members
from lbgen.runtime.common.ports import metrics_url
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.common.reload import Change, ReloadOutcome, reload_all
from lbgen.runtime.common.state import lock
from lbgen.runtime.local.decide import accept_request, assign_stand_ins, plan_for
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import (
    EngineChoice,
    ReloadRequest,
    StartRequest,  # read at run time by saved
)
from lbgen.runtime.local.network import Network, network
from lbgen.runtime.local.process import start, wait_listening, with_free_admin_port
from lbgen.runtime.local.reload import LocalEngine, prepare_change, previous, remove_previous
from lbgen.runtime.local.spawn import engine_user, make_engine_directory
from lbgen.runtime.local.stand_ins import StandIns
from lbgen.runtime.standins.plan import StandInSet, stand_in_pools

SCHEMA = 1  # of the file of the saved stack
_FILE = "saved"


class SavedNetwork(Struct, frozen=True):
    """As `network.Network`."""

    host: str
    inside: str
    device: str
    holder: ProcessId


class SavedStack(Struct, frozen=True):
    """What a stack serves: `stand_in_set` are the endpoints of the plan of `request`, `binaries` are the executables as
    they run (copies where their user cannot reach the original). `generation` counts the changes since its start."""

    generation: int
    request: StartRequest
    stand_in_set: StandInSet
    networks: tuple[tuple[str, SavedNetwork], ...]
    binaries: tuple[tuple[str, Binary], ...]


def write_saved(folder: Path, value: SavedStack) -> None:
    """Commit `value` as what the stack serves. Raises EngineError LB408."""
    engines = tuple(replace(each, described=None) for each in value.request.engines)  # code of this process
    saved.write(folder / _FILE, SCHEMA, replace(value, request=replace(value.request, engines=engines)))


def read_saved(folder: Path) -> SavedStack | None:
    """The saved stack; None when there is none that this lbgen can read, or an engine of it is not installed."""
    found = saved.read(folder / _FILE, SCHEMA, SavedStack)
    return found if found is not None and {x.name for x in found.request.engines} <= {*engine_names()} else None


class StackProcesses:
    """What runs of a stack; `tell` is given each step. What is started ends with `ends`, which its owner closes."""

    def __init__(
        self,
        request: StartRequest,
        record: state.StackState,
        progress: Callable[[Progress], None],
        cleanup: ExitStack,
    ) -> None:
        self.request = request
        self.record = record
        self.progress = progress
        self.cleanup = cleanup
        self.handles: dict[str, EngineProcess] = {}
        self.networks: dict[str, Network] = {}
        self.stand_in_set = StandInSet()  # every stand-in that was ever started, as they stay
        self.active_set = StandInSet()  # those of the plan that is served
        self.generation = 0  # counts the changes
        self.stand_ins = StandIns(self.folder)

    @property
    def folder(self) -> Path:
        """The stack's in the state directory."""
        return Path(self.request.folder)

    def make_networks(self) -> None:
        """Create the network namespaces of kernel engines. EngineError LB407."""
        kernels = [each.name for each in self.request.engines if each.kernel]
        self.networks = {name: self.cleanup.enter_context(network(None, self.folder)) for name in kernels}

    def save(self) -> None:
        """Save the state that a later supervisor would restore. Raises EngineError LB408."""
        networks = {name: (net, ProcessId.of(net.holder.pid)) for name, net in self.networks.items()}
        value = SavedStack(
            self.generation,
            self.request,
            replace(self.active_set, stand_ins=self.stand_in_set.stand_ins),
            tuple(
                (name, SavedNetwork(net.host, net.inside, net.device, holder))
                for name, (net, holder) in networks.items()
                if holder is not None
            ),
            tuple((name, handle.binary) for name, handle in self.handles.items()),
        )
        write_saved(self.folder, value)

    def start(self) -> tuple[Diagnostic, ...]:
        """Start everything and wait until every route answers; returns warnings. Raises LbgenError, OSError."""
        with lock("ports"):
            addresses = self.active_set = self._stand_ins(self.request.plan)
            for chosen in self.request.engines:
                self._start(chosen, addresses, self.networks.get(chosen.name))
            for handle in self.handles.values():
                wait_listening(handle, self.request.seconds)
                self.progress(Progress(Step.LISTENING, handle.engine))
        return self._wait_for_routes()

    def request_stop(self) -> None:
        """Send the graceful stop to all engines at once."""
        for handle in self.handles.values():
            handle.request_stop()

    def _stand_ins(self, plan: Plan) -> StandInSet:
        """Start a stand-in for each endpoint that has none, on loopback and on each namespace's veth."""
        if not stand_in_pools(plan):
            return StandInSet()
        there = self.stand_in_set.stand_ins
        hosts = [net.host for net in self.networks.values()]
        folder = self.folder / f"stand-ins-{len(there)}"
        made = assign_stand_ins(plan, self.request.engines, hosts, self.stand_in_set, folder)
        every = tuple(dict.fromkeys((*there, *made.stand_ins)))
        if self.stand_ins.process is None:
            self.cleanup.callback(self.stand_ins.stop)
        self.stand_ins.serve(every)
        self.stand_in_set = replace(made, stand_ins=every)
        listed = endpoint_states(plan, made)
        self.record = replace(self.record, endpoints=listed)
        self.progress(Progress(Step.BACKENDS, total=len(listed), done=len(listed)))
        return made

    def _start(self, chosen: EngineChoice, stand_ins: StandInSet, net: Network | None) -> None:
        plan = plan_for(self.request.plan, chosen, stand_ins, None if net is None else net.host)
        if isinstance(chosen.engine, Watched):
            admins = {x.plan.admin_port or 0 for x in self.handles.values()}
            ports = {x.port + each.offset for x in self.request.plan.listeners for each in self.request.engines}
            plan = with_free_admin_port(plan, frozenset(admins | ports))
        directory = self._directory(chosen)
        self.cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        entry = state.EngineState(
            chosen.name,
            chosen.title,
            chosen.binary.version,
            str(chosen.binary.path),
            str(directory),
            leftovers=chosen.engine.process(plan, chosen.binary, directory).cleanup,
        )
        self.write_entry(entry)  # before the start, so that `down` finds the folder if this process is killed now
        handle = start(
            chosen.engine, plan, chosen.binary, chosen.version, directory, self.request.accept, net, death=None
        )
        self.cleanup.callback(handle.stop)
        self.handles[chosen.name] = handle
        identity = ProcessId.of(handle.pid)
        started = identity.started if identity else 0
        self.write_entry(
            replace(
                entry,
                addresses=_addresses(handle),
                pid=handle.pid,
                started=started,
                access_log=handle.spec.access_log,
                agent=handle.agent.pid if handle.agent is not None else 0,
                admin=handle.plan.admin_port or 0,
                members=members(self.request.plan, handle.plan),
                metrics=metrics_url(handle.plan.metrics),
            )
        )
        self.progress(Progress(Step.STARTED, chosen.name, f"{chosen.title} {chosen.binary.version}"))

    def _directory(self, chosen: EngineChoice) -> Path:
        """The engine's working directory: in the state directory, or, for root, where the user nobody can reach it."""
        if engine_user().uid is not None:
            return make_engine_directory(f"lbgen-{self.request.name}-{chosen.name}-", engine_user())
        directory = Path(self.request.folder) / chosen.name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        return directory

    def _wait_for_routes(self) -> tuple[Diagnostic, ...]:
        """Wait for every route of every engine; returns warnings. EngineError LB405 for routes that fail."""
        seconds, progress = self.request.seconds, self.progress
        found: list[Diagnostic] = []
        for each in self.handles.values():
            named = (each.engine, each.title)
            found += readiness.check_routes(
                each.plan, named, each.address, seconds=seconds, progress=progress, client=each.client
            )
        return without_errors(found)

    def reload(self, asked: ReloadRequest) -> tuple[Diagnostic, ...]:
        """Reload all engines, or none; returns warnings. Raises LbgenError."""
        order = self.request
        plan, chosen, accept = accept_request(order, asked)
        self.recover(seconds=asked.seconds)
        listed = self.record.endpoints
        changes: list[Change] = []
        try:
            with lock("ports"):
                stand_ins = self._stand_ins(plan)
            for each in chosen:
                self.progress(Progress(Step.CHECKING, each.name))
                net = self.networks.get(each.name)
                own = plan_for(plan, each, stand_ins, None if net is None else net.host)
                changes.append(prepare_change(self.handles[each.name], each.engine, own, accept, self.generation))
                self.progress(Progress(Step.CHECKED, each.name))
            after = replace(order, plan=plan, engines=chosen, accept=accept)
            warnings = reload_all(
                tuple(changes),
                seconds=asked.seconds,
                progress=self.progress,
                commit=lambda: self._commit(after, stand_ins),
            )
        except Exception:
            self.record = replace(self.record, endpoints=listed)
            raise
        finally:
            for handle in self.handles.values():
                self.refresh_entry(handle)
            if all(change.outcome is not ReloadOutcome.UNKNOWN for change in changes):
                self._settle()
        for each in chosen:
            self.progress(Progress(Step.RELOADED, each.name))
        return warnings

    def _commit(self, order: StartRequest, stand_ins: StandInSet) -> None:
        """`order` is what the stack serves from now on. Raises EngineError LB408, and then it is not."""
        before = self.request, self.active_set, self.generation
        self.request, self.active_set, self.generation = order, stand_ins, self.generation + 1
        try:
            self.save()
        except BaseException:
            self.request, self.active_set, self.generation = before
            raise
        self.record = replace(self.record, digest=order.digest, changes=self.generation)

    def _settle(self) -> None:
        """Remove the earlier files of a finished change. Where that fails (no space, no descriptor), the next change
        does it."""
        with suppress(OSError):
            for handle in self.handles.values():
                remove_previous(handle.directory)

    def recover(self, *, seconds: float) -> tuple[Diagnostic, ...]:
        """Roll back an unfinished change, if there is one: files, engines, routes. Returns findings about what serves
        then. Raises OSError, EngineError where the files cannot be restored."""
        if not any(previous(handle.directory, self.generation).is_dir() for handle in self.handles.values()):
            self._settle()
            return ()
        found: list[Diagnostic] = []
        for handle in self.handles.values():
            if previous(handle.directory, self.generation).is_dir():
                live = LocalEngine(handle, self.generation)
                change = Change(live, handle.plan, handle.spec, None, (handle.plan, handle.spec))
                try:
                    change.revert(seconds=seconds, progress=self.progress)
                except LbgenError as error:
                    found += error.diagnostics
            elif handle.spec.agent and handle.agent is not None and handle.agent.poll() is not None:
                handle.restart_agent()
            self.refresh_entry(handle)
        self._settle()
        return tuple(found)

    def refresh_entry(self, handle: EngineProcess) -> None:
        """Update an engine's entry in the record, after it loaded files."""
        entry = next(x for x in self.record.engines if x.name == handle.engine)
        agent = handle.agent.pid if handle.agent is not None else 0
        identity = None
        with suppress(OSError):  # no descriptor left
            identity = ProcessId.of(handle.pid)
        entry = replace(entry, pid=handle.pid, started=identity.started if identity is not None else entry.started)
        there = members(self.request.plan, handle.plan)
        log = handle.spec.access_log
        served = metrics_url(handle.plan.metrics)
        entry = replace(entry, addresses=_addresses(handle), access_log=log, agent=agent, members=there, metrics=served)
        self.write_entry(entry)

    def write_entry(self, entry: state.EngineState) -> None:
        self.record = self.record.with_engine(entry)
        try:
            state.write(self.record)
        except EngineError:
            if not self.record.committed:
                raise
            # A full disk must not end what serves; the next change writes this one as well.


def endpoint_states(plan: Plan, stand_ins: StandInSet) -> tuple[state.EndpointState, ...]:
    """The record's entries for the stand-ins of `plan`."""
    host = stand_ins.stand_ins[0].host if stand_ins.stand_ins else ""
    return tuple(
        state.EndpointState(endpoint.field, pool.name, host, stand_ins.ports[endpoint.field])
        for pool in stand_in_pools(plan)
        for endpoint in pool.endpoints
        if endpoint.field in stand_ins.ports
    )


def _addresses(handle: EngineProcess) -> tuple[state.Address, ...]:
    return tuple(
        state.Address(x.name, str(x.mode), *handle.address(x.name), scheme=state.scheme(x))
        for x in handle.plan.listeners
    )
