"""A running engine and another plan -> the engine serving that plan, or again the one that it served before."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lbgen.agent.run import known
from lbgen.diagnostics import EngineError, LbgenError, Severity
from lbgen.engines.checks import FILE as ORDER
from lbgen.engines.rendered import MANIFEST, render_with
from lbgen.plan.model import Protocol
from lbgen.plan.overlay import with_admin
from lbgen.runtime import readiness
from lbgen.runtime.checker import check
from lbgen.runtime.hot import obstacles
from lbgen.runtime.local import ports
from lbgen.runtime.local.process import failure, for_version, wait_listening
from lbgen.runtime.local.user import engine_user

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import Engine, ProcessSpec
    from lbgen.engines.rendered import Rendered
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.process import Handle

_PREVIOUS = ".previous"  # the files before the last change, beside them


@dataclass(slots=True)
class Change:
    """What an engine shall serve from now on; `before` is the plan and the process that it had."""

    handle: Handle
    plan: Plan
    spec: ProcessSpec
    rendered: Rendered
    before: tuple[Plan, ProcessSpec]

    def load(self) -> None:
        """Put the files in place and have the engine load them. Raises OSError, EngineError."""
        user, handle = engine_user(), self.handle
        handle.stop_agent()  # what it writes would be for the files before
        _keep(handle.directory)
        rendered = self.rendered
        if self.spec.agent and ORDER in rendered:
            texts = known(rendered[ORDER], handle.directory)
            files = tuple(replace(x, text=texts.get(x.name, x.text)) for x in rendered.files)
            rendered = replace(rendered, files=files)
        owner = None if user.uid is None or user.gid is None else (user.uid, user.gid)
        rendered.write(handle.directory, owner)
        handle.reload(self.plan, self.spec)

    def confirm(self, *, backends: bool, seconds: float) -> tuple[Diagnostic, ...]:
        """Wait until every route answers as the plan says, also those that are gone or new; warnings are returned.

        EngineError LB403, LB405 when they do not.
        """
        return _confirmed(self.handle, self.before[0], backends=backends, seconds=seconds)

    def revert(self, *, backends: bool, seconds: float) -> None:
        """Back to the files before. EngineError LB403, LB405 when they do not serve any more."""
        handle = self.handle
        handle.stop_agent()
        _restore(handle.directory)
        handle.reload(*self.before)
        _confirmed(handle, self.plan, backends=backends, seconds=seconds)


def prepare(handle: Handle, target: Engine, plan: Plan, accept: tuple[str, ...]) -> Change:
    """The change to `plan`, judged and checked; nothing has happened to what runs.

    Raises LbgenError (verdicts), EngineError LB401 (the engine's checker refuses it), LB404 (port taken), LB412 (only
    with a new start).
    """
    plan = for_version(plan, target.name, handle.version)
    if handle.plan.admin_port is not None:
        plan = with_admin(plan, handle.plan.admin_port)
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
    problems = check(plan, target, handle.binary, accept=accept)
    if problems:
        raise EngineError(problems)
    return Change(handle, plan, spec, rendered, (handle.plan, handle.spec))


def _texts(handle: Handle, rendered: Rendered) -> dict[str, str]:
    """The texts of the rendered files that are in the engine's folder."""
    names = [*_manifest(handle.directory), *rendered]
    paths = {name: handle.directory / PurePosixPath(name) for name in names}
    copies = {copy.path for copy in (*rendered.copies, *handle.plan.files)}
    return {
        name: path.read_text(encoding="utf-8", errors="replace")
        for name, path in paths.items()
        if name not in copies and path.is_file()
    }


def _confirmed(handle: Handle, before: Plan, *, backends: bool, seconds: float) -> tuple[Diagnostic, ...]:
    wait_listening(handle, seconds)
    plan = handle.plan
    wanted = (*readiness.turned(before, plan), *readiness.probes(plan))
    late = readiness.wait(plan, wanted, handle.address, backends=backends, seconds=seconds)
    if not handle.alive():
        raise failure(handle.title, f"{handle.title} ended", handle.log)
    found = (
        *readiness.unasked(plan, wanted, handle.title),
        *readiness.diagnostics(late, handle.title, plan, backends=backends, seconds=seconds),
    )
    if any(each.severity is Severity.ERROR for each in found):
        raise EngineError(found)
    return found


def _manifest(directory: Path) -> list[str]:
    path = directory / MANIFEST
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _keep(directory: Path) -> None:
    """Hold on to the files that are there: new ones come by renaming, so that links are enough."""
    place = directory / _PREVIOUS
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    for name in (MANIFEST, *_manifest(directory)):
        source, target = directory / PurePosixPath(name), place / PurePosixPath(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            os.link(source, target)


def _restore(directory: Path) -> None:
    """Put back what `_keep` held on to; files that came since go."""
    place = directory / _PREVIOUS
    before, now = _manifest(place), _manifest(directory)
    for name in (*before, MANIFEST):
        source, target = place / PurePosixPath(name), directory / PurePosixPath(name)
        if source.is_file():
            staged = target.with_name(f".{target.name}.back")
            staged.unlink(missing_ok=True)
            os.link(source, staged)
            staged.replace(target)
    for name in set(now) - set(before):
        (directory / PurePosixPath(name)).unlink(missing_ok=True)


def reload_all(changes: tuple[Change, ...], *, backends: bool, seconds: float) -> tuple[Diagnostic, ...]:
    """Load all changes, or none: when one does not serve, each engine goes back. Returns warnings.

    Raises EngineError LB413, which says why and whether the files before serve again.
    """
    from lbgen.diagnostics import Diagnostic

    loaded: list[Change] = []
    warnings: list[Diagnostic] = []
    try:
        for change in changes:
            loaded.append(change)
            change.load()
            warnings += change.confirm(backends=backends, seconds=seconds)
            if change.spec.reload_note:
                said = f"{change.handle.title} {change.handle.binary.version}: {change.spec.reload_note}"
                warnings.append(Diagnostic("LB412", said, severity=Severity.ADVICE))
    except (LbgenError, OSError) as error:
        reasons = error.diagnostics if isinstance(error, LbgenError) else (Diagnostic("LB408", str(error)),)
        outcome = "the files before are in place again and serve"
        for change in reversed(loaded):
            try:
                change.revert(backends=backends, seconds=seconds)
            except (LbgenError, OSError) as second:
                outcome = f"the files before do not serve either: {second}; start it anew with `lbgen up`"
        title = loaded[-1].handle.title
        told = Diagnostic("LB413", f"{title} does not serve the change; {outcome}")
        raise EngineError((told, *reasons)) from None
    return tuple(warnings)
