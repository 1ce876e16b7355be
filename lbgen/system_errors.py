"""Findings about errors of the operating system: the file, the reason and the remedy."""

from __future__ import annotations

import os
import pwd
from errno import EACCES, EAGAIN, EDQUOT, EIO, EMFILE, ENFILE, ENOENT, ENOMEM, ENOSPC, EPERM, EROFS

from lbgen.diagnostics import Diagnostic

NO_SPACE = (ENOSPC, EDQUOT)
_OPEN_FILES = 65_536


class _Process:
    """State of this process. `lasting`: a supervisor, whose limits are changed from outside."""

    lasting = False


def set_supervisor() -> None:
    """Let remedies describe how to raise the limits of this process, a supervisor."""
    _Process.lasting = True


def to_diagnostic(error: OSError, place: str = "") -> Diagnostic:
    """LB408 for a full disk, else LB425. `place` is named where the error names no file."""
    code = "LB408" if error.errno in NO_SPACE else "LB425"
    name = error.filename if error.filename is not None else place
    shown = os.fsdecode(name) if isinstance(name, str | bytes) else str(name)
    reason = error.strerror or str(error) or type(error).__name__
    return Diagnostic(code, f"{shown}: {reason}" if shown else reason, hint=remedy(error))


def remedy(error: OSError) -> str:
    """What the user can do about `error`."""
    if error.errno in (EACCES, EPERM):
        return f"let the user {_user()} read it (chmod, chown), or run lbgen as its owner"
    if error.errno == EMFILE:
        lasting = f"prlimit --pid {os.getpid()} --nofile={_OPEN_FILES}"
        how = lasting if _Process.lasting else f"ulimit -n {_OPEN_FILES}"
        return f"raise the limit of open files: {how}"
    return _REMEDIES.get(error.errno or 0, "solve that, then run the command again")


_REMEDIES = {
    ENOENT: "restore it, then run the command again",
    ENFILE: "this host has no open files left: end some of its processes, or raise the sysctl fs.file-max",
    ENOMEM: "free some memory, then run the command again",
    EAGAIN: "this user may start no more processes: end some, or raise the limit (ulimit -u)",
    ENOSPC: "free some space there, or set TMPDIR or LBGEN_STATE_DIR",
    EDQUOT: "free some space there, or set TMPDIR or LBGEN_STATE_DIR",
    EROFS: "set TMPDIR or LBGEN_STATE_DIR to a place that can be written",
    EIO: "check the kernel's log (dmesg) for a failing disk",
}


def _user() -> str:
    """The name of the user who runs this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without a name, as in many containers
        return str(os.geteuid())
