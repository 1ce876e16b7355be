"""Prepare the reload of a local engine, and exchange its files so that they can be restored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lbgen.agent.admin_client import fetch_text
from lbgen.agent.run import steering_files
from lbgen.diagnostics import EngineError
from lbgen.engines.rendered import MANIFEST, Rendered, render_with
from lbgen.plan.model import Plan, Protocol
from lbgen.plan.overlay import with_admin, with_version
from lbgen.runtime.common import ports
from lbgen.runtime.common.health import status_engine
from lbgen.runtime.common.reload import Change, obstacles
from lbgen.runtime.local.check import check
from lbgen.runtime.local.process import wait_listening
from lbgen.runtime.local.run_as import engine_user

if TYPE_CHECKING:
    from lbgen.engines.api import Engine, ProcessSpec
    from lbgen.engines.health import Condition
    from lbgen.runtime.local.engine_process import EngineProcess

PREVIOUS = ".previous"  # the files before the last change, beside them


@dataclass(slots=True)
class LocalEngine:
    """A local engine as a reload sees it. Methods as in `common.reload`."""

    handle: EngineProcess
    _goes_on: bool = False

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

    def address(self, listener: str) -> tuple[str, int]:
        return self.handle.address(listener)

    def stop_agent(self) -> None:
        self.handle.stop_agent()

    def agent_files(self, order: str) -> Mapping[str, str]:
        return steering_files(order, self.handle.directory)

    def replace_files(self, rendered: Rendered) -> None:
        user = engine_user()
        _save_previous(self.handle.directory)
        rendered.write(self.handle.directory, None if user.uid is None or user.gid is None else (user.uid, user.gid))
        changed = _changed_files(self.handle.directory)
        self._goes_on = bool(self.spec.hot_restart_argv) and bool(changed) and all(map(self.spec.watches, changed))

    def restore(self) -> None:
        _restore_previous(self.handle.directory)

    def reload(self, plan: Plan, spec: ProcessSpec) -> None:
        self.handle.reload(plan, spec, succeeded=not self._goes_on)

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
    plan = with_version(plan, target.name, handle.version)
    if handle.plan.admin_port is not None:
        plan = with_admin(plan, handle.plan.admin_port, shared=handle.plan.admin_shared)
    rendered = render_with(target, plan, handle.version, accept)
    spec = replace(target.process(plan, handle.binary, handle.directory), ready=handle.spec.ready)
    found = obstacles(handle.title, (handle.plan, handle.spec, _texts(handle, rendered)), (plan, spec, dict(rendered)))
    if found:
        raise EngineError(found)
    if handle.network is None:
        here = {(x.address, x.port, x.protocol) for x in handle.plan.listeners}
        for listener in plan.listeners:
            new = (listener.address, listener.port, listener.protocol) not in here
            if new and listener.protocol is Protocol.TCP:
                field = f"{listener.field}.port"
                ports.claim(listener.address, listener.port, field, privileged=engine_user().uid is not None)
    problems = check(plan, target, handle.binary, accept=accept, rendered=rendered)
    if problems:
        raise EngineError(problems)
    return Change(LocalEngine(handle), plan, spec, rendered, (handle.plan, handle.spec))


def _texts(handle: EngineProcess, rendered: Rendered) -> dict[str, str]:
    """The texts of the rendered files in the engine's folder, by name."""
    names = [*_manifest(handle.directory), *rendered]
    paths = {name: handle.directory / PurePosixPath(name) for name in names}
    copies = {copy.path for copy in (*rendered.copies, *handle.plan.files)}
    return {
        name: path.read_text(encoding="utf-8", errors="replace")
        for name, path in paths.items()
        if name not in copies and path.is_file()
    }


def _manifest(directory: Path) -> list[str]:
    path = directory / MANIFEST
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _save_previous(directory: Path) -> None:
    """Save the present files as hard links, which suffice since new files replace them by renaming. The copy appears
    atomically, so that one that exists can be restored."""
    place, staged = directory / PREVIOUS, directory / f"{PREVIOUS}.new"
    remove_previous(directory)
    staged.mkdir(mode=0o700)
    for name in (MANIFEST, *_manifest(directory)):
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


def _changed_files(directory: Path) -> list[str]:
    """The names of files that differ from those that `_save_previous` saved."""
    place = directory / PREVIOUS
    return [
        name for name in {*_manifest(place), *_manifest(directory)} if _bytes(place, name) != _bytes(directory, name)
    ]


def _bytes(folder: Path, name: str) -> bytes | None:
    path = folder / PurePosixPath(name)
    return path.read_bytes() if path.is_file() else None


def _restore_previous(directory: Path) -> None:
    """Restore the saved files and remove newer ones. Needs no disk space, and may be repeated."""
    place = directory / PREVIOUS
    if not (place / MANIFEST).is_file():
        return  # nothing was exchanged, or everything is restored
    before, now = _manifest(place), _manifest(directory)
    for name in before:
        source, target = place / PurePosixPath(name), directory / PurePosixPath(name)
        if source.is_file():
            source.replace(target)
    for name in set(now) - set(before):
        (directory / PurePosixPath(name)).unlink(missing_ok=True)
    (place / MANIFEST).replace(directory / MANIFEST)  # last: it marks the end of the work
