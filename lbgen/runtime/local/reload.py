"""Prepare the reload of a local engine, and exchange its files so that they can be restored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from signal import Signals

from lbgen.agent.admin_client import fetch_text
from lbgen.agent.state_file import replace_file
from lbgen.agent.steering import steering_files
from lbgen.diagnostics import EngineError
from lbgen.engines.api import Engine, ProcessSpec
from lbgen.engines.rendered import MANIFEST, Rendered, exchange
from lbgen.plan.model import Plan
from lbgen.runtime.common.driver import reads_by_itself
from lbgen.runtime.common.reload import Change
from lbgen.runtime.common.running_engine import RunningEngine
from lbgen.runtime.local.check import check
from lbgen.runtime.local.decide import changed_files, claim_new_ports, engine_reload, manifest
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.process import wait_listening
from lbgen.runtime.local.spawn import User, engine_user

_MOST = 10_000  # bytes of what an engine said that are shown
_PREVIOUS = ".previous"  # the files before a change, beside them, with the number of the generation that they are of


class LocalEngine(RunningEngine):
    """A local engine. `generation` is that of the files that it has: see `previous`."""

    def __init__(self, handle: EngineProcess, generation: int = 0) -> None:
        title = f"{handle.title} {handle.binary.version}"
        super().__init__(handle.engine, title, handle.plan, handle.spec, handle.client)
        self.handle = handle
        self.directory = handle.directory
        self._previous = previous(handle.directory, generation)

    def address(self, listener: str) -> tuple[str, int]:
        return self.handle.address(listener)

    def read(self, name: str) -> str:
        path = self.directory / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def changed(self, rendered: Rendered) -> Collection[str]:
        return changed_files(self.directory, rendered)

    def save(self, rendered: Rendered) -> None:
        _save_previous(self.directory, self._previous)

    def saved_texts(self) -> Mapping[str, str] | None:
        """None also where everything is restored."""
        return _texts(self._previous) if (self._previous / MANIFEST).is_file() else None

    def reverts_by_itself(self, saved: Mapping[str, str]) -> bool:
        now = _texts(self.directory)
        changed = [name for name in {*saved, *now} if saved.get(name) != now.get(name)]
        return reads_by_itself(self.spec, changed) or (bool(self.spec.hot_restart_argv) and not changed)

    def write(self, rendered: Rendered) -> None:
        rendered.write(self.directory, self._owner())

    def put_saved_back(self) -> None:
        _restore_previous(self.directory, self._previous)

    def put(self, files: Mapping[str, str]) -> None:
        exchange(self.directory, files, self._owner())

    def put_rules(self, name: str, text: str) -> None:
        replace_file(self.directory / name, text)

    def watched_texts(self) -> Mapping[str, str]:
        return self._watched(_texts(self.directory))

    def run(self, command: Sequence[str]) -> None:
        assert self.handle.network is not None  # noqa: S101 - a kernel engine was started in one
        self.handle.network.run_command(command, self.directory)

    def signal(self, number: Signals, plan: Plan) -> None:
        self.handle.signal_reload(number, plan)

    def hot_restart(self, plan: Plan, spec: ProcessSpec) -> None:
        self.handle.hot_restart(plan, spec)

    def reload(self, plan: Plan, spec: ProcessSpec) -> None:
        self.handle.note_workers(plan)
        super().reload(plan, spec)
        self.handle.plan, self.handle.spec = plan, spec
        if not spec.agent:
            self.handle.agent = None

    def stop_agent(self) -> None:
        self.handle.stop_agent()

    def start_agent(self) -> None:
        self.handle.restart_agent()

    def agent_files(self, order: str) -> Mapping[str, str]:
        return steering_files(order, self.directory)

    def ask(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        return fetch_text(self.plan.admin_port, paths)

    def mark(self) -> float:
        return self.handle.log.stat().st_size

    def output(self, mark: float) -> str:
        with self.handle.log.open("rb") as log:
            log.seek(int(mark))
            return log.read(_MOST).decode("utf-8", "replace")

    def resource_hint(self) -> str:
        return ""

    def wait_listening(self, seconds: float) -> None:
        wait_listening(self.handle, seconds)
        self.handle.wait_loaded(seconds)

    def ensure_alive(self) -> None:
        self.handle.ensure_alive()

    def _owner(self) -> tuple[int, int] | None:
        user = User() if self.spec.kernel else engine_user()  # what root loads, no other user may own
        return None if user.uid is None or user.gid is None else (user.uid, user.gid)


def prepare_change(
    handle: EngineProcess, target: Engine, plan: Plan, accept: tuple[str, ...], generation: int = 0
) -> Change:
    """The change to `plan` from the files of that generation, after verdicts and the engine's checker; nothing that
    runs is touched.

    Raises LbgenError (verdicts), EngineError LB401 (the engine's checker refuses it), LB404 (port in use), LB412 (needs
    a restart).
    """
    made = engine_reload(handle, target, plan, accept)
    plan, rendered = made.plan, made.rendered
    if handle.network is None:
        claim_new_ports(handle, plan)
    problems = check(plan, target, handle.binary, accept=accept, rendered=rendered)
    if problems:
        raise EngineError(problems)
    return Change(LocalEngine(handle, generation), plan, made.spec, rendered, (handle.plan, handle.spec))


def previous(directory: Path, generation: int) -> Path:
    """The folder of an engine's files before a change of what is of that generation. While it is there, and its
    generation is that of the saved stack, the change is unfinished."""
    return directory / f"{_PREVIOUS}-{generation}"


def _save_previous(directory: Path, place: Path) -> None:
    """Save the present files as hard links, which suffice since new files replace them by renaming. The copy appears
    atomically, so that one that exists can be restored."""
    staged = directory / f"{_PREVIOUS}.new"
    remove_previous(directory)
    staged.mkdir(mode=0o700)
    for name in (MANIFEST, *manifest(directory)):
        source, target = directory / PurePosixPath(name), staged / PurePosixPath(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            os.link(source, target)
    staged.replace(place)


def remove_previous(directory: Path) -> None:
    """Remove the saved files: the present ones are committed. Raises OSError."""
    for each in directory.glob(f"{_PREVIOUS}*"):
        shutil.rmtree(each)


def _texts(directory: Path) -> dict[str, str]:
    """The rendered files in an engine's folder, by name; what is not text is not read exactly."""
    paths = {name: directory / PurePosixPath(name) for name in manifest(directory)}
    return {name: path.read_text("utf-8", "surrogateescape") for name, path in paths.items() if path.is_file()}


def _restore_previous(directory: Path, place: Path) -> None:
    """Restore the saved files and remove newer ones. Needs no disk space, and may be repeated."""
    before, now = manifest(place), manifest(directory)
    for name in before:
        source, target = place / PurePosixPath(name), directory / PurePosixPath(name)
        if source.is_file():
            source.replace(target)
    for name in set(now) - set(before):
        (directory / PurePosixPath(name)).unlink(missing_ok=True)
    (place / MANIFEST).replace(directory / MANIFEST)  # last: it marks the end of the work
