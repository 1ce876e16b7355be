"""Start an engine as a local process, and wait until it serves."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Binary, Engine
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.model import Listener, Plan, Protocol
from lbgen.plan.overlay import with_admin, with_version
from lbgen.runtime.common import ports
from lbgen.runtime.common.driver import AGENT_FILES, START_SECONDS
from lbgen.runtime.common.executables import find_for
from lbgen.runtime.common.issued_certificates import with_self_signed
from lbgen.runtime.common.state import AGENT_LOG
from lbgen.runtime.local.engine_process import LOG, EngineProcess, failure, spawn_engine
from lbgen.runtime.local.network import Network
from lbgen.runtime.local.spawn import (
    Process,
    User,
    accessible_copy,
    chown_tree,
    engine_user,
    how_ended,
    is_reachable,
    make_engine_directory,
)


def start(
    target: Engine,
    plan: Plan,
    binary: Binary,
    version: str,
    directory: Path,
    accept: tuple[str, ...] = (),
    network: Network | None = None,
    rendered: Rendered | None = None,
    death: signal.Signals | None = signal.SIGTERM,
) -> EngineProcess:
    """Render `plan` into `directory` and start the engine there, without waiting until it listens.

    It runs in `network`, if given; a kernel engine needs one, in which it serves at every address and reaches endpoints
    at `network.host`. `rendered` are files to use instead. `death`: see `EngineProcess`.

    Raises LbgenError (verdicts), EngineError LB404 (port taken), LB407 (needs root), LB408 (folder closed to nobody).
    """
    user = engine_user()
    plan = with_version(with_self_signed(plan), target.name, version)
    if not is_reachable(directory, user):
        message = f"{directory} cannot be reached by the user nobody, who runs the engines"
        raise EngineError(Diagnostic("LB408", message, hint="choose a folder that others may enter"))
    spec = target.process(plan, binary, directory)
    if rendered is not None:
        spec = replace(spec, ready="")  # their admin port is unknown
    if spec.ready and plan.admin_port is None:
        plan = with_free_admin_port(plan)
    rendered = rendered or render_with(target, plan, version, accept)
    if spec.kernel and network is None:
        raise TypeError("a kernel engine needs a network")
    if network is None:
        for listener in plan.listeners:
            if listener.protocol is Protocol.TCP:
                field = f"{listener.field}.port"
                ports.claim(listener.address, listener.port, field, privileged=user.uid is not None)
        if plan.metrics is not None and spec.agent:
            ports.claim(plan.metrics.address, plan.metrics.port, "metrics.port")
        if plan.acme is not None:
            ports.claim(ports.LOOPBACK, plan.acme.port, "acme_challenge.port")
    rendered.write(directory)
    log = directory / LOG
    log.touch()
    if spec.kernel:
        chown_tree(directory, User(os.geteuid(), os.getegid()))  # root loads them: no other user may own them
        assert network is not None  # noqa: S101 - as said above
        network.set_sysctls(spec.sysctls)
        for command in spec.setup:
            network.run_command(command, directory)
    else:
        binary = accessible_copy(binary, directory, user)
        spec = replace(target.process(plan, binary, directory), ready=spec.ready)
        chown_tree(directory, user)
    process: Process
    if network is not None and spec.kernel and not spec.argv:
        process = network.holder
    else:
        process = spawn_engine(spec, plan, directory, network, death=death)
    handle = EngineProcess(
        target.name, target.title, version, binary, plan, directory, process, spec, network, death=death
    )
    if spec.agent and any(name in rendered for name in AGENT_FILES):  # the caller's files may lack them
        handle.restart_agent()
    return handle


def with_free_admin_port(plan: Plan, taken: frozenset[int] = frozenset()) -> Plan:
    """`plan` with a free loopback port for the engine's status, none of `taken`. Raises EngineError LB404."""
    taken |= {listener.port for listener in plan.listeners}
    return with_admin(plan, ports.free_port("127.0.0.1", 20_000 + os.getpid() % 4_000, taken), shared=True)


def wait_listening(handle: EngineProcess, seconds: float = START_SECONDS) -> None:
    """Return once every listener accepts connections, or is bound for UDP, and the engine's readiness path answers.

    EngineError LB403 with the log's last lines when it ends, or is too slow.
    """
    if handle.network is not None and not handle.spec.kernel:
        handle.network.run_inside(lambda: _wait_listening(handle, seconds))
    else:
        _wait_listening(handle, seconds)


def _wait_listening(handle: EngineProcess, seconds: float) -> None:
    title = handle.title
    end = time.monotonic() + seconds
    waiting = [x for x in handle.plan.listeners if not handle.spec.kernel]
    pause = 0.005
    while True:
        code = handle.process.poll()
        if code is not None:
            raise failure(title, f"{title} {handle.binary.version} {how_ended(code)} while starting", handle.log, code)
        waiting = [x for x in waiting if not _listens(x)]
        if not waiting and _is_ready(handle) and not _missing_of_agent(handle):
            return
        if time.monotonic() > end:
            if not waiting and (missing := _missing_of_agent(handle)):
                message = f"the agent of {title} serves no {missing} after {seconds:g} s"
                raise failure("the agent", message, handle.directory / AGENT_LOG)
            if not waiting:
                raise failure(title, f"{title} is not ready after {seconds:g} s", handle.log)
            names = ", ".join(f"{x.name} ({x.address} port {x.port})" for x in waiting)
            raise failure(title, f"{title} does not accept on {names} after {seconds:g} s", handle.log)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def _listens(listener: Listener) -> bool:
    if listener.protocol is Protocol.UDP:
        return ports.is_bound_for_udp(listener.address, listener.port)
    return ports.accepts(listener.address, listener.port)


def _is_ready(handle: EngineProcess) -> bool:
    if not handle.spec.ready:
        return True
    with closing(HTTPConnection(ports.LOOPBACK, handle.plan.admin_port or 0, timeout=2)) as connection:
        try:
            connection.request("GET", handle.spec.ready)
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False


def _missing_of_agent(handle: EngineProcess) -> str:
    """What the agent does not serve yet, "" = nothing."""
    plan = handle.plan
    if handle.agent is None:
        return ""
    if plan.metrics is not None and not ports.accepts(plan.metrics.address, plan.metrics.port):
        return "metrics"
    return "challenges" if plan.acme is not None and not ports.accepts(ports.LOOPBACK, plan.acme.port) else ""


@contextmanager
def run_engine(
    target: Engine | str,
    plan: Plan,
    binary: Binary | None = None,
    directory: Path | None = None,
    *,
    version: str | None = None,
    accept: tuple[str, ...] = (),
    seconds: float = START_SECONDS,
    network: Network | None = None,
    rendered: Rendered | None = None,
) -> Iterator[EngineProcess]:
    """Serve `plan` on its own ports with one engine for as long as the block lasts.

    `binary` None: found on this host, of `version` or of `engines.<engine>.version` (default: the newest supported one
    here). `directory` None: a temporary one. A kernel engine (nftables) needs a `network` of
    `lbgen.runtime.local.network.network()`, with endpoints on its `host` address; others may run in one. `rendered` are
    files to use as they are.
    Raises what `start` and `wait_listening` raise, and EngineError LB402.
    """
    if isinstance(target, str):
        target = engine_by_name(target)
    binary, found = find_for(plan, target, binary, version)
    made = None if directory is not None else make_engine_directory(f"lbgen-{target.name}-", engine_user())
    place = directory or made
    assert place is not None  # noqa: S101 - one of the two
    try:
        handle = start(target, plan, binary, found, place, accept, network, rendered)
        try:
            wait_listening(handle, seconds)
            yield handle
        finally:
            handle.stop()
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
