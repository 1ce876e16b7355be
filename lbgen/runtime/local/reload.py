"""Prepare the reload of a local engine, and exchange its files so that they can be restored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.agent.admin_client import fetch_text
from lbgen.agent.steering import steering_files
from lbgen.diagnostics import EngineError
from lbgen.engines.rendered import MANIFEST, Rendered, exchange, with_texts
from lbgen.runtime.common.driver import reads_by_itself
from lbgen.runtime.common.health import status_engine
from lbgen.runtime.common.reload import Change
from lbgen.runtime.common.rules_change import RulesChange, rules_change
from lbgen.runtime.common.stages import put_in_stages, watched
from lbgen.runtime.local.check import check
from lbgen.runtime.local.decide import changed_files, claim_new_ports, engine_reload, manifest
from lbgen.runtime.local.process import wait_listening
from lbgen.runtime.local.run_as import User, engine_user

if TYPE_CHECKING:
    from lbgen.engines.api import Engine, ProcessSpec
    from lbgen.engines.health import Condition
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.engine_process import EngineProcess

_MOST = 10_000  # bytes of what an engine said that are shown
PREVIOUS = ".previous"  # the files before the last change, beside them


class LocalEngine(Struct):
    """A local engine as a reload sees it. Methods as in `common.reload`."""

    handle: EngineProcess
    _goes_on: bool = False
    _change: RulesChange | None = None

    @property
    def watches_files(self) -> bool:
        return self._goes_on

    @property
    def engine(self) -> str:
        return self.handle.engine

    @property
    def title(self) -> str:
        return f"{self.handle.title} {self.handle.binary.version}"

    @property
    def plan(self) -> Plan:
        return self.handle.plan

    @property
    def spec(self) -> ProcessSpec:
        return self.handle.spec

    @property
    def client(self) -> str:
        return self.handle.client

    def address(self, listener: str) -> tuple[str, int]:
        return self.handle.address(listener)

    def stop_agent(self) -> None:
        self.handle.stop_agent()

    def agent_files(self, order: str) -> Mapping[str, str]:
        return steering_files(order, self.handle.directory)

    def _owner(self) -> tuple[int, int] | None:
        user = User() if self.spec.kernel else engine_user()  # what root loads, no other user may own
        return None if user.uid is None or user.gid is None else (user.uid, user.gid)

    def replace_files(self, rendered: Rendered) -> None:
        directory = self.handle.directory
        self._goes_on = reads_by_itself(self.spec, changed_files(directory, rendered))
        self._change = rules_change(self.engine, self.spec, lambda name: _read(directory / name), rendered)
        _save_previous(directory)
        if self._goes_on:
            rendered = with_texts(rendered, put_in_stages(self, watched(self.spec, rendered)))
        rendered.write(directory, self._owner())

    def restore(self) -> None:
        self._change = None
        before = _previous_texts(self.handle.directory)
        if before is not None:
            now = _texts(self.handle.directory)
            self._change = rules_change(self.engine, self.spec, lambda name: now.get(name, ""), before, whole=True)
            changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
            self._goes_on = reads_by_itself(self.spec, changed) or (bool(self.spec.hot_restart_argv) and not changed)
            try:
                if self._goes_on:
                    put_in_stages(self, watched(self.spec, before))
            except EngineError:
                self._goes_on = False  # it does not take them back by itself
        _restore_previous(self.handle.directory)

    def watched_texts(self) -> Mapping[str, str]:
        return watched(self.spec, _texts(self.handle.directory))

    def put(self, files: Mapping[str, str]) -> None:
        exchange(self.handle.directory, files, self._owner())

    def ask(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        return fetch_text(self.plan.admin_port, paths)

    def mark(self) -> float:
        return self.handle.log.stat().st_size

    def output(self, mark: float) -> str:
        with self.handle.log.open("rb") as log:
            log.seek(int(mark))
            return log.read(_MOST).decode("utf-8", "replace")

    def reload(self, plan: Plan, spec: ProcessSpec) -> None:
        self.handle.reload(plan, spec, succeeded=not self._goes_on, change=self._change)

    def endpoints(self, pools: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, int], Condition]:
        reporter = status_engine(self.handle.engine)
        said = fetch_text(self.plan.admin_port, reporter.status_paths) if reporter is not None else None
        return reporter.health(pools, said) if reporter is not None and said is not None else {}

    def resource_hint(self) -> str:
        return ""

    def wait_listening(self, seconds: float) -> None:
        wait_listening(self.handle, seconds)
        self.handle.wait_loaded(seconds)

    def ensure_alive(self) -> None:
        self.handle.ensure_alive()


def prepare_change(handle: EngineProcess, target: Engine, plan: Plan, accept: tuple[str, ...]) -> Change:
    """The change to `plan`, after verdicts and the engine's checker; nothing that runs is touched.

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
    return Change(LocalEngine(handle), plan, made.spec, rendered, (handle.plan, handle.spec))


def _read(path: Path) -> str:
    """Its text, "" without one."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _save_previous(directory: Path) -> None:
    """Save the present files as hard links, which suffice since new files replace them by renaming. The copy appears
    atomically, so that one that exists can be restored."""
    place, staged = directory / PREVIOUS, directory / f"{PREVIOUS}.new"
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
    place, staged = directory / PREVIOUS, directory / f"{PREVIOUS}.new"
    for each in (staged, place):
        if each.exists():
            shutil.rmtree(each)


def _texts(directory: Path) -> dict[str, str]:
    """The rendered files in an engine's folder, by name; what is not text is not read exactly."""
    paths = {name: directory / PurePosixPath(name) for name in manifest(directory)}
    return {name: path.read_text("utf-8", "surrogateescape") for name, path in paths.items() if path.is_file()}


def _previous_texts(directory: Path) -> dict[str, str] | None:
    """The same of the saved files; None when there are none."""
    return _texts(directory / PREVIOUS) if (directory / PREVIOUS / MANIFEST).is_file() else None


def _restore_previous(directory: Path) -> None:
    """Restore the saved files and remove newer ones. Needs no disk space, and may be repeated."""
    place = directory / PREVIOUS
    if not (place / MANIFEST).is_file():
        return  # nothing was exchanged, or everything is restored
    before, now = manifest(place), manifest(directory)
    for name in before:
        source, target = place / PurePosixPath(name), directory / PurePosixPath(name)
        if source.is_file():
            source.replace(target)
    for name in set(now) - set(before):
        (directory / PurePosixPath(name)).unlink(missing_ok=True)
    (place / MANIFEST).replace(directory / MANIFEST)  # last: it marks the end of the work
