"""Python imports this at its start where tests put the folder on PYTHONPATH: faults at a chosen step of a process.

A step is what Python audits and an operating system can refuse: each file opened, made, renamed or linked, each process
and socket. Looking through /proc or code is one step, and of all steps of one kind in one folder the first two count:
none of them is done yet, and some of them are. They count anew whenever the record of the stack has changed.
LBGEN_TEST_FAULTS names a file of JSON: `role` (supervisor, takeover or client), `at` (the number of the step, 0 = none)
and `kind` (error, kill, child). Beside it `.log` gets a line for each step.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

STEPS = {
    "open": None,  # by what it is opened for
    "os.mkdir": errno.ENOSPC,
    "os.rename": errno.ENOSPC,
    "os.link": errno.ENOSPC,
    "os.remove": errno.EACCES,
    "os.rmdir": errno.EACCES,
    "os.chmod": errno.EACCES,
    "os.chown": errno.EPERM,
    "os.listdir": errno.EMFILE,
    "os.scandir": errno.EMFILE,
    "shutil.rmtree": errno.EACCES,
    "subprocess.Popen": errno.EAGAIN,
    "socket.__new__": errno.EMFILE,
    "socket.bind": errno.EACCES,
    "tempfile.mkstemp": errno.ENOSPC,
    "tempfile.mkdtemp": errno.ENOSPC,
}
ROOT = os.path.abspath(__file__).rpartition("/tests/")[0]  # noqa: PTH100 - called in an audit hook
CODE = (f"{ROOT}/lbgen", f"{ROOT}/templates", sys.prefix, sys.base_prefix)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """The steps of this process, counted from the moment in which its work begins."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.role = "supervisor" if sys.argv[:1] == ["-c"] else "client"
        self.state = os.path.abspath(os.environ["LBGEN_STATE_DIR"])  # noqa: PTH100 - called in an audit hook
        self.inside = threading.local()
        self.count, self.at, self.kind = -1, 0, ""
        self.looks, self.seen = False, Counter[tuple[str, str]]()
        self.later = threading.Event()  # the process after the one to be killed begins

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if getattr(self.inside, "now", False):
            return
        self.inside.now = True
        try:
            if role := self._begins(event, args):
                self._begin(role)
            if self.count >= 0 and event in STEPS:
                self._step(event, args)
        finally:
            self.inside.now = False

    def _begins(self, event: str, args: tuple[object, ...]) -> str:
        """A supervisor's work begins with what it is asked, a command's with the state directory."""
        if self.role == "supervisor":
            self._watch_requests()
            return ""
        begins = self.count < 0 and event in ("open", "os.mkdir") and str(args[0]).startswith(self.state)
        return "client" if begins else ""

    def _watch_requests(self) -> None:
        """Begin with each request that a supervisor receives, once it has imported what receives them."""
        connection = getattr(sys.modules.get("lbgen.runtime.local.messages"), "Connection", None)
        receive = getattr(connection, "receive", None)
        if receive is None or hasattr(receive, "watched"):
            return
        roles = {"StartRequest": "supervisor", "ReloadRequest": "supervisor", "TakeoverRequest": "takeover"}

        def watched(*args: object) -> object:
            found = receive(*args)
            if role := roles.get(type(found).__name__):
                self.inside.now = True
                self._begin(role)
                self.inside.now = False
            return found

        watched.watched = True
        connection.receive = watched

    def _begin(self, role: str) -> None:
        with open(self.file) as plan:  # noqa: PTH123 - called in an audit hook
            asked = json.load(plan)
        if asked["role"] != role:
            self.count = -1  # the steps of a change after a takeover are those of any change
        else:
            self.count, self.at, self.kind = 0, asked["at"], asked["kind"]
            self.log = os.open(f"{self.file}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _step(self, event: str, args: tuple[object, ...]) -> None:
        name = str(args[0]) if args else ""
        if event == "socket.__new__" and _accepts():
            return  # the operating system has accepted it already
        looks, self.looks = self.looks, _looks(name)
        if looks and self.looks:
            return
        kind = (event, os.path.dirname(name))  # noqa: PTH120 - called in an audit hook
        self.seen[kind] += 1
        if self.seen[kind] > 2 and not self.looks and not event.startswith(("subprocess.", "socket.")):
            return
        if event == "os.rename" and name.startswith(self.state):
            self.seen.clear()
        self.count += 1
        os.write(self.log, f"{self.count} {event} {name}\n".encode())
        if event == "subprocess.Popen":
            self.later.set()
        if self.at == 0 or self.count < self.at:
            return
        if self.kind == "child":
            if event == "subprocess.Popen":
                self._done()
                self.later = threading.Event()
                threading.Thread(target=_kill_next_child, args=(_children(), self.later), daemon=True).start()
            return
        self._done()
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = STEPS[event]
        if number is None:
            flags = args[2] if isinstance(args[2], int) else 0
            number = errno.ENOSPC if flags & WRITES else (errno.EMFILE, errno.EACCES)[self.count % 2]
        if event.startswith("socket."):
            raise OSError(number, os.strerror(number))
        raise OSError(number, os.strerror(number), name)

    def _done(self) -> None:
        """One fault is enough, also for the processes that come after this one."""
        self.at = 0
        with open(self.file, "w") as plan:  # noqa: PTH123 - as above
            json.dump({"role": "", "at": 0, "kind": ""}, plan)


def _looks(name: str) -> bool:
    """Whether somebody looks through /proc, or reads code of Python's: steps by the hundred that are all alike."""
    return name.startswith(("/proc/", *CODE)) or name.endswith((".py", ".pyc", "__pycache__", ".cache"))


def _accepts() -> bool:
    """Whether `socket.accept` makes its object: it is a caller of the audit hook, three frames up at most."""
    frame = sys._getframe(1)
    for _ in range(5):
        if frame is None or frame.f_code.co_name == "accept":
            return frame is not None
        frame = frame.f_back
    return False


def _children() -> set[str]:
    found: set[str] = set()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - as above
        with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:  # noqa: PTH123 - as above
            found.update(file.read().split())
    return found


def _kill_next_child(before: set[str], later: threading.Event) -> None:
    """The next one may end before it is seen: then none is killed, as the one after it belongs to another change."""
    limit = time.monotonic() + 5
    while time.monotonic() < limit and not later.is_set():
        for pid in _children() - before:
            os.kill(int(pid), signal.SIGKILL)
            return
        time.sleep(0.0002)


if _file := os.environ.get("LBGEN_TEST_FAULTS"):
    sys.addaudithook(Faults(_file))
