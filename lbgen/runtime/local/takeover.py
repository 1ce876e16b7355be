"""Take over a stack whose supervisor has ended: adopt its processes for a new supervisor."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from lbgen.engines.api import Binary
from lbgen.runtime.common import state
from lbgen.runtime.common.driver import AGENT_FILES, Progress
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.local import engine_process
from lbgen.runtime.local.decide import saved_engine
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.local.network import Network
from lbgen.runtime.local.spawn import AdoptedProcess, SessionLeader, processes_in, session_leaders, session_of, stop
from lbgen.runtime.local.stack_processes import SavedStack, StackProcesses, endpoint_states
from lbgen.runtime.local.stand_ins import StandIns


def take_over(
    saved: SavedStack, record: state.StackState, tell: Callable[[Progress], None], ends: ExitStack
) -> StackProcesses:
    """The processes of what serves; an engine or agent that has died is started again. Raises OSError, LbgenError.

    Nothing ends with `ends` before this returns.
    """
    order = saved.request
    me = ProcessId.own()
    listed = endpoint_states(order.plan, saved.stand_in_set)
    record = replace(
        record, pid=me.pid, started=me.started, digest=order.digest, endpoints=listed, changes=saved.generation
    )
    networks = {
        name: Network(each.host, each.inside, AdoptedProcess.of(each.holder), each.device)
        for name, each in saved.networks
    }
    made = StackProcesses(order, record, tell, ends)
    made.networks = networks
    made.generation = saved.generation
    made.stand_in_set = made.active_set = saved.stand_in_set
    made.stand_ins = StandIns.adopt(Path(order.folder))
    if saved.stand_in_set.stand_ins:
        made.stand_ins.serve(saved.stand_in_set.stand_ins)
    binaries = dict(saved.binaries)
    for chosen in order.engines:
        entry = next(each for each in record.engines if each.name == chosen.name)
        made.handles[chosen.name] = _handle(made, chosen, entry, binaries[chosen.name])
    for net in networks.values():
        ends.callback(stop, net.holder, signal.SIGKILL, 1.0)
    ends.callback(made.stand_ins.stop)
    for handle in made.handles.values():
        ends.callback(shutil.rmtree, handle.directory, ignore_errors=True)
        ends.callback(handle.stop)
    return made


def _handle(processes: StackProcesses, chosen: EngineChoice, entry: state.EngineState, binary: Binary) -> EngineProcess:
    net = processes.networks.get(chosen.name)
    served = saved_engine(
        processes.request.plan, chosen, processes.active_set, None if net is None else net.host, entry, binary
    )
    directory, spec = served.directory, served.spec
    handle = EngineProcess(
        chosen.name,
        chosen.title,
        chosen.version,
        binary,
        served.plan,
        directory,
        net.holder if net is not None and not spec.argv else AdoptedProcess(entry.pid, None),
        spec,
        net,
        death=None,
    )
    found = session_leaders(entry.directory)
    agents = [each for each in found if _is_agent(each)]
    if spec.argv:
        _adopt_processes(handle, entry.directory, found, agents)
    for each in agents[:-1]:
        stop(AdoptedProcess.of(each.identity), spec.stop, 1.0)
    if agents:
        handle.agent = AdoptedProcess.of(agents[-1].identity)
    elif spec.agent and any((directory / name).is_file() for name in AGENT_FILES):
        handle.restart_agent()
    return handle


def _adopt_processes(
    handle: EngineProcess, directory: str, found: Sequence[SessionLeader], agents: Sequence[SessionLeader]
) -> None:
    """Adopt the engine's processes among those `found` in its folder, or start it again."""
    spec = handle.spec
    mains = sorted(
        ((_epoch(spec.hot_restart_argv, each), each.identity) for each in found if each not in agents),
        key=lambda each: (each[0], each[1].started),
    )
    if mains:
        handle.epoch = mains[-1][0]
        handle.process = AdoptedProcess.of(mains[-1][1])
        handle.draining = [AdoptedProcess.of(identity) for _, identity in mains[:-1]]
    else:
        sessions = {each.identity.pid for each in agents}
        for left in processes_in(directory):  # workers may outlive their master and hold the ports
            if session_of(left.pid) not in sessions:
                left.send(signal.SIGKILL)
        handle.start_process()


def _is_agent(leader: SessionLeader) -> bool:
    module = engine_process.AGENT_ENTRY.partition(":")[0]
    return any(f"from {module} " in word for word in leader.argv)


def _epoch(successive: tuple[str, ...], leader: SessionLeader) -> int:
    """The hot-restart epoch in its command line; 0 for an engine without hot restarts."""
    pattern = "\0".join(re.escape(word).replace(re.escape("{epoch}"), r"(\d+)") for word in successive)
    found = re.fullmatch(pattern, "\0".join(leader.argv)) if successive else None
    return int(found.group(1)) if found is not None else 0
