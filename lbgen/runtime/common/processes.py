"""Processes, sockets and signals of this host, as the kernel lists and delivers them.

As a program, in a container that shares the process namespace of an engine (arguments: TCP ports): print
"ready" once the workers of process 1 are listed, then end when none of them listens on the TCP ports any more.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct


class ProcessId(Struct, frozen=True):
    """A pid with its start time, so that a reused pid is not mistaken for the earlier process."""

    pid: int
    started: int  # clock ticks after boot

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the identity of the living process `pid`; None when it is gone or a zombie. Raises OSError when that
        cannot be determined (no descriptor left)."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        words = text.rsplit(")", 1)[1].split()
        return None if words[0] in "ZX" else cls(pid, int(words[19]))

    @classmethod
    def own(cls) -> ProcessId:
        """The identity of this process."""
        found = cls.of(os.getpid())
        assert found is not None  # noqa: S101 - we live
        return found

    def alive(self) -> bool:
        """Whether this process, and not a later one with its pid, still runs."""
        return ProcessId.of(self.pid) == self

    def send(self, number: signal.Signals, *, group: bool = False) -> bool:
        """Send a signal to the process (or to the group that it leads); False when it is gone."""
        if not self.alive():
            return False
        try:
            os.killpg(self.pid, number) if group else os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


READY = "ready"
CLONE_NEWNET = 0x40000000
_HEARD_SECONDS = 5.0
# The kernel's numbers of socket states.
ESTABLISHED, UNCONNECTED, CLOSE_WAIT, LISTEN = "01", "07", "08", "0A"


class Socket(NamedTuple):
    """A socket as the kernel lists it: `protocol` is tcp or udp, `address` and `port` are its own."""

    protocol: str
    address: IPv4Address | IPv6Address
    port: int
    state: str
    inode: str


def parse_sockets(protocol: str, text: str) -> Iterator[Socket]:
    """The sockets in a file of /proc/net."""
    for line in text.strip().splitlines()[1:]:
        words = line.split()
        host, _, port = words[1].partition(":")
        yield Socket(protocol, _address(host), int(port, 16), words[3], words[9])


def _address(text: str) -> IPv4Address | IPv6Address:
    """An address as /proc/net writes it: words of 32 bits, each in the byte order of this host."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    found = ip_address(struct.pack(f"={len(words)}I", *words))
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def sockets_of(process: int | str, protocol: str) -> list[Socket]:
    """The sockets in the network of a process (a pid, or `thread-self`); none where they cannot be seen."""
    found: list[Socket] = []
    for table in (protocol, f"{protocol}6"):
        with suppress(OSError):  # it has ended, or the kernel has no IPv6
            found += parse_sockets(protocol, Path(f"/proc/{process}/net/{table}").read_text(encoding="ascii"))
    return found


def wait_until(holds: Callable[[], object], seconds: float, pause: float = 0.05) -> bool:
    """Look every `pause` seconds whether `holds`; False when it still does not after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def wait_heard(holds: Callable[[], object], remind: Callable[[], None], seconds: float) -> bool:
    """Like `wait_until` for what a signal caused: `remind` sends it again after 5 s, 10 s more and so on.

    HAProxy's master loses a signal that comes while it loads its files.
    """
    end, patience = time.monotonic() + seconds, _HEARD_SECONDS
    while not wait_until(holds, min(patience, max(0.0, end - time.monotonic()))):
        if time.monotonic() > end:
            return False
        remind()
        patience *= 2
    return True


def set_netns(descriptor: int) -> None:
    """Move this thread into a network namespace. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def group_members(leader: int) -> tuple[ProcessId, ...]:
    """The living processes of the process group that `leader` once led."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(words[2]) == leader and words[0] not in "ZX":
            found.append(ProcessId(int(entry.name), int(words[19])))
    return tuple(found)


def workers(master: int) -> tuple[ProcessId, ...]:
    """The processes of the group that `master` leads, without itself."""
    return tuple(each for each in group_members(master) if each.pid != master)


def closed(former: Collection[ProcessId], ports: Collection[int]) -> bool:
    """Whether none of `former` listens on those TCP ports; one whose descriptors may not be read does not count."""
    return not any(_listens(each, ports) for each in former)


def _listens(process: ProcessId, ports: Collection[int]) -> bool:
    folder = Path(f"/proc/{process.pid}")
    try:
        there = sockets_of(process.pid, "tcp")
        sockets = {f"socket:[{each.inode}]" for each in there if each.state == LISTEN and each.port in ports}
        held = {str(each.readlink()) for each in (folder / "fd").iterdir()} if sockets else set()
    except (FileNotFoundError, ProcessLookupError):  # a descriptor was closed meanwhile, or the process ended
        return process.alive()
    except PermissionError:
        return False
    return bool(sockets & held) and process.alive()


def main() -> None:
    former = workers(1)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    ports = frozenset(map(int, sys.argv[1:]))
    wait_until(lambda: closed(former, ports), inf)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asks this process to end; `exit_code` is 128 plus its number, as in shells."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Interrupted(number)


def raise_signals() -> None:
    """Make these signals raise an exception in the main thread, so that it can clean up; ignored ones stay ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _raise)


@contextmanager
def defer_signals(*, forget: bool = False) -> Iterator[None]:
    """Deliver signals that arrive inside the block at its end, or with `forget` never, as the caller ends anyway."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _SIGNALS:
            before[number] = signal.getsignal(number)
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and not forget:  # also where the block ends by an error, which somebody may expect
            signal.raise_signal(came[0])


if __name__ == "__main__":
    main()
