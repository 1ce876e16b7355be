"""Start unprivileged child processes, and stop them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from lbgen.runtime.common.workers import group_members
from lbgen.runtime.local.child_process import EXEC_WRAPPER

if TYPE_CHECKING:
    from lbgen.runtime.local.run_as import User

_ASK_AGAIN_SECONDS = 0.5
# The kernel sends the parent-death signal when the forking thread ends. One thread that lives as long as this process
# ties the signal to the process.
_forker = ThreadPoolExecutor(1, thread_name_prefix="lbgen-spawn")


def _new_forker() -> None:
    global _forker
    _forker = ThreadPoolExecutor(1, thread_name_prefix="lbgen-spawn")


os.register_at_fork(after_in_child=_new_forker)  # threads do not survive a fork


def spawn(
    argv: Sequence[str],
    *,
    user: User,
    directory: Path,
    output: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    death: signal.Signals | None = signal.SIGTERM,
    netns: int | None = None,
    hold: bool = False,
    low_ports: bool = False,
    keep: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `argv` in `directory` as `user`, in a session of its own; it receives `death` when this process ends (None:
    it continues, and `adopt.session_leaders` finds it by its directory).

    The default is SIGTERM, since nginx and HAProxy cannot end their workers on SIGKILL. `netns` is a process whose
    network namespace to join; `hold` creates one and waits. `low_ports` keeps the capability to bind ports below 1024
    when root drops its privileges. `keep`: a process of ours stays as its parent, has the pid, forwards signals and
    ends as it does. Raises OSError.
    """
    order = {
        "parent": os.getpid(),
        "uid": user.uid,
        "gid": user.gid,
        "death": death,
        "netns": netns,
        "hold": hold,
        "low_ports": low_ports,
        "keep": keep,
    }
    words = [f"{name}={int(value)}" for name, value in order.items() if value is not None]
    command = [sys.executable, "-I", "-S", str(EXEC_WRAPPER), *words, "--", *argv]
    return _start(command, directory, output, env or {})


def spawn_own(entry: str, order: object, *, directory: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start our own `entry` (module:function) with `order`, JSON data, in a session of its own. It keeps our privileges
    until it calls `drop_privileges`, since the engines' user may be unable to read a Python in a home directory."""
    module, _, function = entry.partition(":")
    boot = (  # no collection of garbage during the imports, see supervisor_client
        "import gc; gc.disable(); import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        f"from {module} import {function} as run; gc.freeze(); gc.enable(); run(json.loads(sys.argv[2]))"
    )
    path = json.dumps([each or str(Path.cwd()) for each in sys.path])
    return _start([sys.executable, "-P", "-c", boot, path, json.dumps(order)], directory, output, {})


def _start(
    command: Sequence[str], directory: Path, output: IO[bytes] | int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory), **env}

    def fork() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - argv is an engine's, no shell
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    return _forker.submit(fork).result()


class Process(Protocol):
    """A process that we started or adopted, with the members of `subprocess.Popen` that are used."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """None while it runs, else its exit status: minus the signal's number, or `child_process.UNKNOWN_STATUS`."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status once it has ended. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal; no effect once it has ended."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...


def stop(process: Process, gentle: signal.Signals, seconds: float) -> None:
    """Stop a process that leads a group: send `gentle`, SIGKILL after `seconds`; then kill the rest of its group.

    `gentle` is repeated once: HAProxy 2.8's master loses a signal that arrives before its main loop, although the
    worker serves by then.
    """
    for pause in (min(_ASK_AGAIN_SECONDS, seconds), seconds):
        if process.poll() is None:
            process.send_signal(gentle)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(pause)
    if process.poll() is None:
        process.kill()
        process.wait()
    end = time.monotonic() + 1.0
    while (left := group_members(process.pid)) and time.monotonic() < end:
        if any(member.pid == process.pid for member in left):
            return  # pid and group were reused
        for member in left:
            member.send(signal.SIGKILL)
        time.sleep(0.01)
