"""Workers of an engine's process, and whether those from before a reload still take connections."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.runtime.local.spawn import group_members

if TYPE_CHECKING:
    from collections.abc import Collection

    from lbgen.runtime.common.process_id import ProcessId

_LISTEN = "0A"
_LOOK_SECONDS = 0.02


def workers(master: int) -> tuple[ProcessId, ...]:
    """The processes of the group that `master` leads, without itself."""
    return tuple(each for each in group_members(master) if each.pid != master)


def wait_until_closed(former: Collection[ProcessId], ports: Collection[int], seconds: float) -> bool:
    """Return True once none of these takes connections at those TCP ports any more, False when one does after so many
    seconds. One whose descriptors may not be seen counts as gone."""
    end = time.monotonic() + seconds
    while any(_listens(each, ports) for each in former):
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _listens(process: ProcessId, ports: Collection[int]) -> bool:
    folder = Path(f"/proc/{process.pid}")
    try:
        sockets = {f"socket:[{inode}]" for inode in _inodes(folder, ports)}
        held = {str(each.readlink()) for each in (folder / "fd").iterdir()} if sockets else set()
    except (FileNotFoundError, ProcessLookupError):  # a descriptor was closed under our eyes, or it ended
        return process.alive()
    except PermissionError:
        return False
    return bool(sockets & held) and process.alive()


def _inodes(folder: Path, ports: Collection[int]) -> set[str]:
    """Of the sockets that listen at those ports in the network of a process."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (folder / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and int(words[1].rsplit(":", 1)[1], 16) in ports:
                found.add(words[9])
    return found
