"""Adopt processes whose supervisor has ended: find them by their working directory, signal and await them by pidfd."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lbgen.runtime.common.process_id import ProcessId
from lbgen.runtime.local.child_process import EXEC_WRAPPER, UNKNOWN_STATUS

_EXEC_SECONDS = 3.0  # for a process that was just started to become the engine


class AdoptedProcess(Struct):
    """A process that is not our child, as a `spawn.Process`. `descriptor` is its pidfd, which stays valid when the pid
    is reused; None = it has ended."""

    pid: int
    descriptor: int | None

    @classmethod
    def of(cls, process: ProcessId) -> AdoptedProcess:
        """`process` if it still runs and its pid was not reused; else an ended one. Raises OSError (EMFILE)."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return cls(process.pid, None)
        if not process.alive():  # checked while the pidfd holds the pid
            os.close(descriptor)
            return cls(process.pid, None)
        return cls(process.pid, descriptor)

    def poll(self) -> int | None:
        return UNKNOWN_STATUS if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return UNKNOWN_STATUS

    def send_signal(self, sig: int) -> None:
        if self.descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.descriptor, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> bool:
        """Whether it ends within `seconds` (None = wait without limit)."""
        if self.descriptor is None:
            return True
        poll = select.poll()  # select takes no descriptor above 1023
        poll.register(self.descriptor, select.POLLIN)
        if not poll.poll(None if seconds is None else seconds * 1000):
            return False
        os.close(self.descriptor)
        self.descriptor = None
        return True


class SessionLeader(Struct, frozen=True):
    """A process that leads its session, as all that lbgen starts do, with its command line."""

    identity: ProcessId
    argv: tuple[str, ...]


def session_leaders(directory: str) -> tuple[SessionLeader, ...]:
    """The session leaders that work in `directory`, the youngest last, once each has executed its program. `argv` of
    one that stays as an engine's parent is the engine's."""
    limit = time.monotonic() + _EXEC_SECONDS
    while True:
        found = tuple(sorted(_leaders(directory), key=lambda each: each.identity.started))
        if not any(str(EXEC_WRAPPER) in each.argv for each in found) or time.monotonic() > limit:
            return found
        time.sleep(0.02)


def _leaders(directory: str) -> list[SessionLeader]:
    found = []
    for process in processes_in(directory):
        if process.pid == session_of(process.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                text = Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8", errors="surrogateescape")
                argv = tuple(text.rstrip("\0").split("\0"))
                if str(EXEC_WRAPPER) in argv:
                    from lbgen.runtime.local.exec_wrapper import split_arguments  # with ctypes, and rarely needed

                    order, command = split_arguments(list(argv[argv.index(str(EXEC_WRAPPER)) + 1 :]))
                    if order["hold"]:  # of a network
                        continue
                    argv = tuple(command) if order["keep"] else argv
                found.append(SessionLeader(process, argv))
    return found


def processes_in(directory: str) -> list[ProcessId]:
    """The living processes with that working directory, without those of our own session (the user's shell)."""
    found = []
    ours = os.getsid(0)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            place = str((entry / "cwd").readlink())
        except OSError:
            continue
        if place.removesuffix(" (deleted)") == directory and session_of(int(entry.name)) not in (0, ours):
            process = ProcessId.of(int(entry.name))
            if process is not None:
                found.append(process)
    return found


def session_of(pid: int) -> int:
    """The session of a process; 0 when it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def kill_all_in(directory: str, seconds: float = 5.0) -> None:
    """Kill all processes that work in `directory`, for at most `seconds`."""
    limit = time.monotonic() + seconds
    while (left := processes_in(directory)) and time.monotonic() < limit:
        for each in left:
            each.send(signal.SIGKILL)
        time.sleep(0.02)
