"""Processes of this host: the user that engines run as, unprivileged children, and those whose supervisor has ended."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Binary
from lbgen.runtime.common.processes import ProcessId, group_members, wait_until
from lbgen.runtime.local.exec_wrapper import split_arguments


class User(Struct, frozen=True):
    """A user; `uid` and `gid` None = the caller's own, who is not root."""

    uid: int | None = None
    gid: int | None = None


def engine_user() -> User:
    """The user nobody for root, else the caller."""
    if os.geteuid() != 0:
        return User()
    nobody = pwd.getpwnam("nobody")
    return User(nobody.pw_uid, nobody.pw_gid)


def is_reachable(path: Path, user: User) -> bool:
    """Whether `user` may traverse every folder above `path`, and read it."""
    if user.uid is None:
        return os.access(path, os.R_OK)
    for each in (path, *path.parents):
        mode = each.stat()
        if mode.st_uid == user.uid:
            wanted = stat.S_IRUSR if each == path else stat.S_IXUSR
        elif mode.st_gid == user.gid:
            wanted = stat.S_IRGRP if each == path else stat.S_IXGRP
        else:
            wanted = stat.S_IROTH if each == path else stat.S_IXOTH
        if not mode.st_mode & wanted:
            return False
    return True


def make_engine_directory(prefix: str, user: User) -> Path:
    """A new folder of `user`, mode 0700, in a temporary folder that it can reach. EngineError LB408 without one."""
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/run")):  # noqa: S108 - mkdtemp below
        parent = Path(place)
        if parent.is_dir() and os.access(parent, os.W_OK) and is_reachable(parent, user):
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            chown_tree(made, user)
            return made
    raise EngineError(Diagnostic("LB408", "there is no temporary folder that the engines' user can reach"))


def chown_tree(path: Path, user: User) -> None:
    """Change the owner of `path` and everything below it."""
    if user.uid is None or user.gid is None:
        return
    for each in (path, *path.rglob("*")):
        os.chown(each, user.uid, user.gid, follow_symlinks=False)


def accessible_copy(binary: Binary, directory: Path, user: User) -> Binary:
    """`binary` itself if `user` can reach it, else a copy below `directory`, with libraries that it cannot reach."""
    needed = [path for path in (binary.path.resolve(), *_libraries(binary.path)) if not is_reachable(path, user)]
    if not needed:
        return binary
    root = Path(os.path.commonpath([path.parent for path in (binary.path.resolve(), *needed)]))
    copies = directory / "program"
    for path in (binary.path.resolve(), *needed):
        target = copies / path.relative_to(root)  # the same layout, for an $ORIGIN rpath
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    chown_tree(copies, user)
    return replace(binary, path=copies / binary.path.resolve().relative_to(root))


def _libraries(path: Path) -> tuple[Path, ...]:
    """The shared libraries that the executable loads; none for a static one, or without ldd."""
    ldd = shutil.which("ldd")
    if ldd is None:
        return ()
    done = subprocess.run([ldd, str(path)], capture_output=True, text=True, check=False)  # noqa: S603 - fixed program
    if done.returncode < 0:  # a copy without its libraries would not start
        message = f"ldd, which lists the libraries of {path}, was killed by signal {-done.returncode}"
        raise EngineError(Diagnostic("LB403", message, hint="try again, with more memory if it was short"))
    words = (word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/"))
    return tuple(found for found in map(Path, words) if found.is_file())


EXEC_WRAPPER = Path(__file__).with_name("exec_wrapper.py")
UNKNOWN_STATUS = 1 << 16  # of a process that is not our child
KILLED = "run the command again; where the kernel ended it (dmesg), free some memory first"


def how_ended(code: int) -> str:
    """A phrase for that exit status."""
    if code == UNKNOWN_STATUS:
        return "ended"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"


_ASK_AGAIN_SECONDS = 0.5
_GROUP_SECONDS = 5.0  # for a group to end that was killed
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
    return _start(own_command(entry, order), directory, output, {})


def own_command(entry: str, order: object) -> list[str]:
    """The command line that calls our own `entry` with `order` in a Python that finds the modules of this one."""
    module, _, function = entry.partition(":")
    boot = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import {function} as run; "
    path = json.dumps([each or str(Path.cwd()) for each in sys.path])
    return [sys.executable, "-P", "-c", f"{boot}run(json.loads(sys.argv[2]))", path, json.dumps(order)]


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
    end = time.monotonic() + _GROUP_SECONDS
    while (left := group_members(process.pid)) and time.monotonic() < end:
        if any(member.pid == process.pid for member in left):
            return  # pid and group were reused
        for member in left:
            member.send(signal.SIGKILL)
        time.sleep(0.01)


_EXEC_SECONDS = 3.0  # for a process that was just started to become the engine


class AdoptedProcess(Struct):
    """A process that is not our child, with the members of `subprocess.Popen` that are used. `descriptor` is its pidfd,
    which stays valid when the pid is reused; None = it has ended."""

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


Process = subprocess.Popen[bytes] | AdoptedProcess  # `poll` and `wait` of an adopted one return UNKNOWN_STATUS


class SessionLeader(Struct, frozen=True):
    """A process that leads its session, as all that lbgen starts do, with its command line."""

    identity: ProcessId
    argv: tuple[str, ...]


def session_leaders(directory: str) -> tuple[SessionLeader, ...]:
    """The session leaders that work in `directory`, the youngest last, once each has executed its program. `argv` of
    one that stays as an engine's parent is the engine's."""

    def executed() -> bool:
        return not any(str(EXEC_WRAPPER) in each.argv for each in _leaders(directory))

    wait_until(executed, _EXEC_SECONDS, 0.02)
    return tuple(sorted(_leaders(directory), key=lambda each: each.identity.started))


def _leaders(directory: str) -> list[SessionLeader]:
    found = []
    for process in processes_in(directory):
        if process.pid == session_of(process.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                text = Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8", errors="surrogateescape")
                argv = tuple(text.rstrip("\0").split("\0"))
                if str(EXEC_WRAPPER) in argv:
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

    def gone() -> bool:
        left = processes_in(directory)
        for each in left:
            each.send(signal.SIGKILL)
        return not left

    wait_until(gone, seconds, 0.02)
