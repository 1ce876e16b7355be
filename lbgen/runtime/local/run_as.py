"""The user that engines run as, and files that this user can reach."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.engines.api import Binary


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
