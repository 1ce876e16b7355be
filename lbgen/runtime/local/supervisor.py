"""The process that owns a stack: it starts engines and stand-ins as ordered, keeps them, and takes them down."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from errno import EDQUOT, ENOSPC
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity
from lbgen.engines.health import Watched
from lbgen.plan.overlay import with_ports, with_real_endpoints
from lbgen.runtime import readiness
from lbgen.runtime.endpoints import endpoints
from lbgen.runtime.health import members
from lbgen.runtime.host import judged
from lbgen.runtime.hot import other_version, refusal, reload_all
from lbgen.runtime.local import state
from lbgen.runtime.local.control import Control
from lbgen.runtime.local.network import network
from lbgen.runtime.local.order import Commit, Failed, Progress, Reload, Step, Up, digest
from lbgen.runtime.local.process import Handle, administered, for_version, start, wait_listening
from lbgen.runtime.local.reload import prepare
from lbgen.runtime.local.spawn import ProcessId
from lbgen.runtime.local.user import engine_user, make_directory
from lbgen.runtime.local.watch import Watch
from lbgen.runtime.standins import Cast, cast, played

if TYPE_CHECKING:
    from types import FrameType

    from lbgen.plan.model import Plan
    from lbgen.runtime.local.network import Network
    from lbgen.runtime.local.order import Chosen, Order

_LOOK_SECONDS = 0.5
_CALLER_SECONDS = 5.0  # a caller that says nothing for so long is let go


class _StopError(BaseException):
    """Raised in the main thread when the stack shall end; no handler of errors may catch it."""


@dataclass(slots=True)
class Supervisor:
    """One stack. `pipe` leads to `up` until that has committed."""

    order: Order
    pipe: Connection
    committed: threading.Event = field(default_factory=threading.Event)
    handles: dict[str, Handle] = field(default_factory=dict)
    record: state.StackState = field(init=False)
    networks: dict[str, Network] = field(default_factory=dict)
    cast: Cast = field(default_factory=Cast)  # every stand-in that was ever started, as they stay
    _stopping: bool = False

    def __post_init__(self) -> None:
        me = ProcessId.of(os.getpid())
        assert me is not None  # noqa: S101 - we live
        self.record = state.StackState(self.order.name, self.order.digest, me.pid, me.started)

    def run(self) -> None:
        """Bring the stack up, keep it until SIGTERM or until `up` dies without commit, leave nothing.

        An error that nobody foresaw leaves the record and the log, from which `up` or `down` clean up.
        """
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        failed: Failed | None = None
        try:
            with ExitStack() as stack:
                stack.callback(self._no_more_signals)
                try:
                    self._bring_up(stack)
                    control = stack.enter_context(closing(Control(Path(self.order.folder))))
                    self._commit()
                    self._keep(stack, control)
                finally:
                    self._stopping = True
                    for handle in self.handles.values():
                        handle.ask_to_stop()
        except LbgenError as error:
            failed = Failed(error.diagnostics, error.exit_code)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            hint = "free some space there, or set TMPDIR or LBGEN_STATE_DIR"
            full = Diagnostic("LB408", f"{error.filename or self.order.folder}: {error.strerror}", hint=hint)
            failed = Failed((full,), EngineError.exit_code)
        except _StopError:
            pass
        state.forget(self.record)
        if failed is not None:
            self._tell(failed)

    def _bring_up(self, stack: ExitStack) -> None:
        state.write(self.record)
        self.networks = {x.name: stack.enter_context(network()) for x in self.order.engines if x.kernel}
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watcher.start()
        with state.locked("ports"):
            addresses = self._stand_ins(stack, self.order.plan)
            for chosen in self.order.engines:
                self._start(stack, chosen, addresses, self.networks.get(chosen.name))
            for handle in self.handles.values():
                wait_listening(handle, self.order.seconds)
                self._tell(Progress(Step.LISTENING, handle.engine))
        warnings = self._until_routes_answer()
        self._tell(Up(self.record, warnings))
        while not self.committed.wait(_LOOK_SECONDS):
            pass

    def _commit(self) -> None:
        """Let the record say that it can be asked, which it can by now."""
        self.record = replace(self.record, committed=True)
        state.write(self.record)

    def _stand_ins(self, stack: ExitStack, plan: Plan) -> Cast:
        """Start one stand-in per endpoint, on loopback and on each namespace's cable, unless it is there already."""
        if not played(plan):
            return Cast()
        taken = frozenset(x.port + engine.offset for x in plan.listeners for engine in self.order.engines)
        hosts = ("127.0.0.1", *(net.host for net in self.networks.values()))
        there = self.cast.stand_ins
        made = cast(plan, hosts, taken, Path(self.order.folder) / f"stand-ins-{len(there)}", before=self.cast)
        new = tuple(each for each in made.stand_ins if each not in there)
        stack.enter_context(endpoints(new))
        self.cast = replace(made, stand_ins=(*there, *new))
        listed = tuple(
            state.EndpointState(endpoint.field, pool.name, hosts[0], made.ports[endpoint.field])
            for pool in played(plan)
            for endpoint in pool.endpoints
        )
        self.record = replace(self.record, endpoints=listed)
        self._tell(Progress(Step.BACKENDS, total=len(listed), done=len(listed)))
        return made

    def _start(self, stack: ExitStack, chosen: Chosen, stand_ins: Cast, net: Network | None) -> None:
        plan = self._plan_for(self.order.plan, chosen, stand_ins, net)
        if isinstance(chosen.engine, Watched):
            admins = {x.plan.admin_port or 0 for x in self.handles.values()}
            ports = {x.port + each.offset for x in self.order.plan.listeners for each in self.order.engines}
            plan = administered(plan, frozenset(admins | ports))
        directory = self._directory(chosen)
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        entry = state.EngineState(
            chosen.name,
            chosen.title,
            chosen.binary.version,
            str(chosen.binary.path),
            str(directory),
            leftovers=chosen.engine.process(plan, chosen.binary, directory).leftovers,
        )
        self._note(entry)  # before it starts: were we killed now, `down` would still find what lies in the folder
        handle = start(chosen.engine, plan, chosen.binary, chosen.version, directory, self.order.accept, net)
        stack.callback(handle.stop)
        self.handles[chosen.name] = handle
        identity = ProcessId.of(handle.pid)
        started = identity.started if identity else 0
        self._note(
            replace(
                entry,
                addresses=_addresses(handle),
                pid=handle.pid,
                started=started,
                access_log=handle.spec.access_log,
                agent=handle.agent.pid if handle.agent is not None else 0,
                admin=handle.plan.admin_port or 0,
                members=members(self.order.plan, handle.plan),
            )
        )
        self._tell(Progress(Step.STARTED, chosen.name, f"{chosen.title} {chosen.binary.version}"))

    def _plan_for(self, plan: Plan, chosen: Chosen, stand_ins: Cast, net: Network | None) -> Plan:
        plan = replace(plan, resolvers=chosen.resolvers)
        plan = with_ports(plan, {x.name: x.port + chosen.offset for x in plan.listeners})
        plan = stand_ins.play(plan, net.host if net is not None else "127.0.0.1")
        if net is not None:  # whatever address was asked for is not one of the namespace's
            everywhere = "0.0.0.0"  # noqa: S104 - inside a namespace that only this host reaches
            plan = replace(plan, listeners=tuple(replace(x, address=everywhere) for x in plan.listeners))
        return plan

    def _directory(self, chosen: Chosen) -> Path:
        """Where the engine works: the state directory, or a place that nobody can reach when we are root."""
        if engine_user().uid is not None:
            return make_directory(f"lbgen-{self.order.name}-{chosen.name}-", engine_user())
        directory = Path(self.order.folder) / chosen.name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        return directory

    def _until_routes_answer(self) -> tuple[Diagnostic, ...]:
        """Wait for every route of every engine; EngineError LB405 for those that fail, warnings returned."""
        seconds = self.order.seconds
        found: list[Diagnostic] = []
        for handle in self.handles.values():
            wanted = readiness.probes(handle.plan)
            total, name = len(wanted), handle.engine

            def answered(probe: readiness.Probe, left: int, name: str = name, total: int = total) -> None:
                self._tell(Progress(Step.ANSWERED, name, probe.route, total - left, total))

            late = readiness.wait(handle.plan, wanted, handle.address, seconds=seconds, answered=answered)
            found += readiness.unasked(handle.plan, wanted, handle.title)
            found += readiness.diagnostics(late, handle.title, handle.plan, seconds=seconds)
            if not late:
                self._tell(Progress(Step.READY, name))
        if any(each.severity is Severity.ERROR for each in found):
            raise EngineError(found)
        return tuple(found)

    def _keep(self, stack: ExitStack, control: Control) -> None:
        """Stay until told to end; note what dies, and start it anew; reload when asked."""
        self._hang_up()
        watches = [Watch(handle) for handle in self.handles.values()]
        while True:
            for watch in watches:
                for line in watch.look(time.monotonic()):
                    sys.stderr.write(f"{time.strftime('%F %T')} {line}\n")
                    sys.stderr.flush()
                    entry = next(x for x in self.record.engines if x.name == watch.handle.engine)
                    self._note(watch.noted(entry))
            caller = control.wait(_LOOK_SECONDS)
            if caller is not None:
                with caller:
                    self.pipe = caller
                    self._serve(stack)

    def _serve(self, stack: ExitStack) -> None:
        """Do what a caller asks: the reload to another topology."""
        try:
            asked = self.pipe.recv() if self.pipe.poll(_CALLER_SECONDS) else None
        except (EOFError, OSError):
            return
        if not isinstance(asked, Reload):
            return
        try:
            warnings = self._reload(stack, asked)
            self._tell(Up(self.record, warnings))
        except LbgenError as error:
            self._tell(Failed(error.diagnostics, error.exit_code))

    def _reload(self, stack: ExitStack, asked: Reload) -> tuple[Diagnostic, ...]:
        """All engines serve the plan that was asked for, or go on as they were. Raises LbgenError."""
        order = self.order
        if not order.backends:
            asked = replace(asked, plan=with_real_endpoints(asked.plan))
        engines = tuple((x.name, x.version, x.binary) for x in order.engines)
        if asked.engines not in (None, engines) or asked.backends not in (None, order.backends):
            raise EngineError(refusal("other engines, or other backends, run"))
        before = () if asked.engines is not None else order.accept
        accept = tuple(dict.fromkeys((*before, *asked.accept)))
        chosen = tuple(_again(x, order.plan, asked.plan, accept) for x in order.engines)
        listed = self.record.endpoints
        serves = order.plan
        try:
            with state.locked("ports"):
                stand_ins = self._stand_ins(stack, asked.plan)
            changes = []
            for each in chosen:
                plan = self._plan_for(asked.plan, each, stand_ins, self.networks.get(each.name))
                changes.append(prepare(self.handles[each.name], each.engine, plan, accept))
                self._tell(Progress(Step.CHECKED, each.name))
            warnings = reload_all(tuple(changes), seconds=asked.seconds)
            serves = asked.plan
        except LbgenError:
            self.record = replace(self.record, endpoints=listed)
            raise
        finally:
            for handle in self.handles.values():
                self._follow(handle, serves)
        for each in chosen:
            self._tell(Progress(Step.RELOADED, each.name))
        self.order = replace(order, plan=asked.plan, engines=chosen, accept=accept)
        self.record = replace(self.record, digest=digest(asked.plan, chosen, accept, backends=order.backends))
        state.write(self.record)
        return warnings

    def _follow(self, handle: Handle, plan: Plan) -> None:
        """The record of an engine, after it loaded what serves `plan`."""
        entry = next(x for x in self.record.engines if x.name == handle.engine)
        agent = handle.agent.pid if handle.agent is not None else 0
        identity = ProcessId.of(handle.pid)
        entry = replace(entry, pid=handle.pid, started=identity.started if identity is not None else entry.started)
        there = members(plan, handle.plan)
        log = handle.spec.access_log
        self._note(replace(entry, addresses=_addresses(handle), access_log=log, agent=agent, members=there))

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.close()

    def _watch(self) -> None:
        """Wait for the commit; `up` dying before it ends everything."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            said = None
        if isinstance(said, Commit):
            self.committed.set()
        elif not self._stopping:
            os.kill(os.getpid(), signal.SIGTERM)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise _StopError

    def _no_more_signals(self) -> None:
        self._stopping = True

    def _note(self, entry: state.EngineState) -> None:
        self.record = self.record.with_engine(entry)
        try:
            state.write(self.record)
        except EngineError:
            if not self.committed.is_set():
                raise
            # A disk that is full ends nothing that serves; the next change is written with this one.

    def _tell(self, what: Progress | Up | Failed) -> None:
        with contextlib.suppress(OSError, ValueError):  # gone: the watcher acts on it
            self.pipe.send(what)


def _addresses(handle: Handle) -> tuple[state.Address, ...]:
    return tuple(
        state.Address(x.name, str(x.mode), *handle.address(x.name), scheme=state.scheme(x))
        for x in handle.plan.listeners
    )


def _again(chosen: Chosen, before: Plan, after: Plan, accept: tuple[str, ...]) -> Chosen:
    """The same engine for another plan. LbgenError (verdicts), EngineError LB412 for another version."""
    target = chosen.engine
    other = other_version(target, before, after, chosen.version)
    if other:
        raise EngineError(other)
    plan, problems = judged(for_version(after, target.name, chosen.version), target, chosen.version, accept)
    if problems:
        raise LbgenError(problems)
    return replace(chosen, resolvers=plan.resolvers)


def main(descriptor: int) -> None:
    """Serve the order that comes over the pipe with this descriptor."""
    pipe = Connection(descriptor)
    try:
        order: Order = pipe.recv()
    except EOFError:
        return
    Supervisor(order, pipe).run()
