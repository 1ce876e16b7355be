"""Make an engine load the files that the agent wrote: a signal for its process, or a command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.engines.agent_spec import AgentSpec

_COMMAND_SECONDS = 10
_PATH = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"  # after the caller's own


def load_files(spec: AgentSpec, folder: Path) -> str:
    """Have the engine load its files in `folder`; returns why it could not, "" when it does or looks at them itself."""
    if spec.command:
        return _run(spec.command, folder)
    return _signal(spec, folder) if spec.reload else ""


def _signal(spec: AgentSpec, folder: Path) -> str:
    absent = f"no process of {spec.program} has the pid in {spec.pid_file}"
    try:
        pid = int((folder / spec.pid_file).read_text(encoding="utf-8"))
        if pid > 0 and Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == spec.program:
            os.kill(pid, signal.Signals[spec.reload])
            return ""
    except (OSError, ValueError) as error:
        return f"{absent}: {error}"
    return absent


def _run(command: tuple[str, ...], folder: Path) -> str:
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:{_PATH}")
    if program is None:
        return f"no executable of {command[0]} was found"
    try:
        done = subprocess.run(  # noqa: S603 - the words are the engine's own
            (program, *command[1:]),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else f"`{' '.join(command)}` failed: {done.stderr.strip()}"
