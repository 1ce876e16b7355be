"""`lbgen agent` as a child process beside a local engine, with the privileges of the engine's user, or, for rules in
the kernel, with those of this process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import LbgenError
from lbgen.runtime.common.state import AGENT_LOG
from lbgen.runtime.local.exec_wrapper import drop_privileges, join_network
from lbgen.runtime.local.run_as import User, engine_user
from lbgen.runtime.local.spawn import spawn_own

if TYPE_CHECKING:
    import subprocess


ENTRY = "lbgen.runtime.local.agent:main"


def start(
    engine: str,
    directory: Path,
    netns: int | None = None,
    death: signal.Signals | None = signal.SIGTERM,
    *,
    kernel: bool = False,
) -> subprocess.Popen[bytes]:
    """Start the agent of `engine`, whose files lie in `directory`; it gets the signal `death` (None = none) when this
    process ends. `netns` is a process whose network namespace it joins, as the engine did. `kernel`: it loads rules, so
    that it keeps the caller's user."""
    user = User() if kernel else engine_user()
    rights = {"parent": os.getpid(), "uid": user.uid, "gid": user.gid, "death": None if death is None else int(death)}
    with (directory / AGENT_LOG).open("ab") as output:
        return spawn_own(ENTRY, [engine, netns, rights], directory=directory, output=output)


def main(order: list[Any]) -> None:
    """The child process: import everything, then drop privileges, as that user may be unable to read the modules."""
    from lbgen.agent.run import import_modules, serve  # the process that starts it needs none of it

    engine, netns, rights = order
    try:
        import_modules(engine, Path.cwd())
        if netns is not None:
            join_network(netns)
        drop_privileges(**rights)
        serve(Path.cwd())
    except LbgenError as error:
        sys.exit(str(error))
