"""The program that starts an engine: drop privileges, set the parent-death signal, then exec the engine.

Run by path with `python -I -S`, so it imports nothing of lbgen. Its arguments are words `NAME=NUMBER`, `--` and the
engine's command line. Names: `parent` (the pid that must still be ours), `uid`, `gid` (absent = keep), `low_ports`
(1 = keep the right to ports below 1024), `death` (signal sent when the parent dies; absent = it outlives the parent),
`netns` (pid whose network namespace to join), `hold` (1 = make a network namespace and keep it; no command line),
`keep` (1 = stay as the parent of the engine). The agent, which is part of lbgen, calls only `drop_privileges`.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 8, 47, 2
_CAP_NET_BIND_SERVICE = 10
_CAPABILITY_VERSION_3 = 0x20080522
_CLONE_NEWNET = 0x40000000
_SIGNALS_RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise SystemExit(f"lbgen: {name} failed: {os.strerror(code)}")


def join_network(pid: int) -> None:
    """Enter the network namespace of that process; needs root."""
    with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
        _call("setns", namespace.fileno(), _CLONE_NEWNET)


def drop_privileges(
    *, parent: int, uid: int | None, gid: int | None, death: int | None, low_ports: bool = False
) -> None:
    """Become that user (None = keep), without ways back; get the signal `death` (None = none) when `parent` ends."""
    if low_ports:
        _call("prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)
    if gid is not None:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
    if uid is not None:
        os.setresuid(uid, uid, uid)
    if low_ports:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        one = 1 << _CAP_NET_BIND_SERVICE
        data = (ctypes.c_uint32 * 6)(one, one, one, 0, 0, 0)  # effective, permitted, inheritable; low words, high words
        if _libc.capset(header, data) != 0:
            raise SystemExit(f"lbgen: capset failed: {os.strerror(ctypes.get_errno())}")
        _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_NET_BIND_SERVICE, 0, 0)
    if uid is not None or os.geteuid() != 0:
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if death is not None:  # after the change of uid, which would clear it
        _call("prctl", _PR_SET_PDEATHSIG, death, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit("lbgen: the parent is gone")


def split_arguments(words: list[str]) -> tuple[dict[str, int], list[str]]:
    """The numbers by name, and the engine's command line."""
    end = words.index("--")
    return {name: int(value) for name, _, value in (word.partition("=") for word in words[:end])}, words[end + 1 :]


def main() -> None:
    """Prepare this process as asked, then exec `argv`."""
    order, argv = split_arguments(sys.argv[1:])
    if "netns" in order:
        join_network(order["netns"])
    if order.get("hold"):
        _call("unshare", _CLONE_NEWNET)
        # A namespace does not forward unless told; redirects would teach clients a way around it.
        for name, value in (
            ("ip_forward", "1"),
            ("conf/all/send_redirects", "0"),
            ("conf/default/send_redirects", "0"),
        ):
            Path(f"/proc/sys/net/ipv4/{name}").write_text(value, encoding="ascii")
    drop_privileges(
        parent=order["parent"],
        uid=order.get("uid"),
        gid=order.get("gid"),
        death=order.get("death"),
        low_ports=bool(order.get("low_ports")),
    )
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in _SIGNALS_RESET:
        signal.signal(number, signal.SIG_DFL)
    if order.get("hold"):
        os.write(1, b"ready\n")
        _libc.pause()
        return
    if order.get("keep"):
        _fork_engine()
    try:
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        raise SystemExit(f"lbgen: cannot run {argv[0]}: {error.strerror}") from None


def _fork_engine() -> None:
    """Fork, and return in the child. The parent forwards signals to it and ends as it does."""
    passed = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return
    for each in passed:
        signal.signal(each, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code in passed:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


if __name__ == "__main__":
    main()
