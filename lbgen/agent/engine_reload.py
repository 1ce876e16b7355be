"""The files of an engine that the agent writes, and how the engine loads them: by a signal, or by a command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.agent.state_file import replace_file
from lbgen.engines.api import Incremental

if TYPE_CHECKING:
    from lbgen.engines.agent_spec import AgentSpec, Steered

_COMMAND_SECONDS = 10
_ALL = "# All files are loaded.\n"
_PATH = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"  # after the caller's own


@dataclass(slots=True)
class EngineFiles:
    """`resumed`: the last agent may have written files that the engine has not loaded."""

    spec: AgentSpec
    folder: Path
    steered: Steered
    log: Callable[[str], None]
    resumed: InitVar[bool]
    unloaded: bool = False  # files were written that the engine has not loaded
    _failure: str = ""  # why, as far as it was logged

    def __post_init__(self, resumed: bool) -> None:
        self.unloaded = bool(self._text(self._change_file)) if self._change_file else resumed

    @property
    def _change_file(self) -> str:
        """As long as it has text, the kernel may lack what it says; "" for an engine that loads all files anew."""
        return self.steered.change_file if self.spec.change and isinstance(self.steered, Incremental) else ""

    def replace(self, texts: Mapping[str, str]) -> None:
        """Write these files by name where they differ, and have the engine load them, also those it did not load
        before. Raises OSError when they cannot be written."""
        before = {name: self._text(name) for name in texts}
        if texts != before and not self._change(before, texts):
            self._write(before, texts)
            self.unloaded = True
        if not self.unloaded:
            return
        failure = load_files(self.spec, self.folder)
        self.unloaded = bool(failure)
        if self._change_file and not failure:
            replace_file(self.folder / self._change_file, "")
        if failure != self._failure:
            self.log(
                f"the engine has not loaded its files: {failure}" if failure else "the engine has loaded its files"
            )
            self._failure = failure

    def _change(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Load only what differs; whether that was possible. The files are written once the kernel has it."""
        if not self._change_file or self.unloaded or not isinstance(self.steered, Incremental):
            return False
        text = self.steered.change(before, after)
        replace_file(self.folder / self._change_file, text or _ALL)
        if not text or _run(self.spec.change, self.folder):
            return False
        self._write(before, after)
        replace_file(self.folder / self._change_file, "")
        return True

    def _write(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for name, text in after.items():
            if text != before[name]:
                replace_file(self.folder / name, text)

    def _text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else ""


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
