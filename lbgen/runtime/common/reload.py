"""Reloads running engines with a new plan, all of them or none; the same code for processes and containers. Changes
that need a restart are rejected before anything is applied."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity, without_errors
from lbgen.engines.agent_spec import FILE as ORDER
from lbgen.engines.api import Engine, ProcessSpec, target_version
from lbgen.engines.health import NO_ADDRESS
from lbgen.engines.rendered import Rendered
from lbgen.plan.model import Listener, Plan
from lbgen.runtime.common import readiness
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.common.route_probes import Probe, probes_of_change
from lbgen.runtime.common.running_engine import RunningEngine
from lbgen.system_errors import to_diagnostic

_LOOK_SECONDS = 0.05
REMEDY = "`lbgen up` replaces what runs; connections are cut then"


class ReloadOutcome(StrEnum):
    """Which version serves after a change: the one before, the new one, or it is unknown."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"


class Change(Struct):
    """The desired state of one engine; `before` is the plan and the process that it had."""

    live: RunningEngine
    plan: Plan
    spec: ProcessSpec
    rendered: Rendered | None  # None: it is only taken back
    before: tuple[Plan, ProcessSpec]
    outcome: ReloadOutcome = ReloadOutcome.BEFORE

    def load(self) -> None:
        """Put the files in place and have the engine load them. Raises OSError, EngineError."""
        assert self.rendered is not None  # noqa: S101 - there is something to load
        self.outcome = ReloadOutcome.UNKNOWN
        self.live.stop_agent()
        rendered = self.rendered
        if self.spec.agent and ORDER in rendered:
            texts = self.live.agent_files(rendered[ORDER])
            rendered = rendered.with_files(replace(x, text=texts.get(x.name, x.text)) for x in rendered.files)
        self.live.replace_files(rendered)
        self.live.reload(self.plan, self.spec)

    def confirm(self, *, seconds: float, progress: Callable[[Progress], None]) -> tuple[Diagnostic, ...]:
        """Wait until every route answers as the plan says, also those that are gone or new; warnings are returned.

        EngineError LB403, LB405 when they do not.
        """
        warnings = _confirmed(self.live, self.before[0], seconds=seconds, progress=progress)
        self.outcome = ReloadOutcome.AFTER
        return warnings

    def revert(self, *, seconds: float, progress: Callable[[Progress], None]) -> None:
        """Back to the files before. EngineError LB403, LB405 when they do not serve any more."""
        self.live.stop_agent()
        self.live.restore()
        self.live.reload(*self.before)
        _confirmed(self.live, self.plan, seconds=seconds, progress=progress)
        self.outcome = ReloadOutcome.BEFORE


def reload_all(
    changes: tuple[Change, ...],
    *,
    seconds: float,
    progress: Callable[[Progress], None],
    commit: Callable[[], None] | None = None,
) -> tuple[Diagnostic, ...]:
    """Load all changes, or none: when one does not serve, each engine goes back. Returns warnings; `progress` is called
    with each step. `commit` is called when all serve; where it fails each engine goes back as well.

    Raises EngineError LB413, which says why and whether the files before serve again.
    """
    loaded: list[Change] = []
    warnings: list[Diagnostic] = []
    try:
        for change in changes:
            loaded.append(change)
            progress(Progress(Step.LOADING, change.live.engine))
            change.load()
            warnings += change.confirm(seconds=seconds, progress=progress)
            if change.spec.reload_note:
                said = f"{change.live.title}: {change.spec.reload_note}"
                warnings.append(Diagnostic("LB412", said, severity=Severity.ADVICE))
        if commit is not None:
            commit()
    except (Exception, KeyboardInterrupt) as error:
        reasons = _reasons(error)
        outcome = "the files before are in place again and serve"
        with defer_signals():
            for change in reversed(loaded):
                try:
                    progress(Progress(Step.REVERTING, change.live.engine))
                    change.revert(seconds=seconds, progress=progress)
                except Exception as second:  # noqa: BLE001 - the other engines go back as well
                    outcome = f"the files before do not serve either: {second}; start it anew with `lbgen up`"
        back = all(change.outcome is ReloadOutcome.BEFORE for change in loaded)
        if back if isinstance(error, KeyboardInterrupt) else not back and {x.code for x in reasons} == {"LB421"}:
            raise  # nothing more can be said than that it was interrupted, or that nobody can be asked
        if not loaded:  # nothing changes but what is noted
            raise EngineError(reasons) from error
        title = loaded[-1].live.title
        hint = "the other findings say why; once that is mended, the same command works"
        first = Diagnostic("LB413", f"{title} does not serve the change; {outcome}", hint=hint)
        raise EngineError((first, *reasons)) from None
    return tuple(warnings)


def _reasons(error: BaseException) -> tuple[Diagnostic, ...]:
    if isinstance(error, LbgenError):
        return error.diagnostics
    if isinstance(error, KeyboardInterrupt):
        return (Diagnostic("LB403", "interrupted"),)
    return (to_diagnostic(error) if isinstance(error, OSError) else internal_error(error),)


def internal_error(error: BaseException) -> Diagnostic:
    """Return LB426 for an unexpected exception, with its place in lbgen's code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    message = f"lbgen failed: {type(error).__name__}: {error}{place}"
    return Diagnostic("LB426", message, hint="this is a fault of lbgen; report it with the log (lbgen logs)")


def _confirmed(
    live: RunningEngine, before: Plan, *, seconds: float, progress: Callable[[Progress], None]
) -> tuple[Diagnostic, ...]:
    live.wait_listening(seconds)
    plan = live.plan
    first, others = probes_of_change(before, plan, live.client)
    wanted = (*first, *others)
    done = 0

    def answered(probe: Probe, left: int) -> None:
        nonlocal done
        done += 1
        progress(Progress(Step.ANSWERED, live.engine, probe.route, done, len(wanted)))

    late = readiness.wait(plan, first, live.address, seconds=seconds, answered=answered)
    if all(map(readiness.is_warning, late)):
        late += readiness.wait(plan, others, live.address, seconds=seconds, answered=answered)
    if all(map(readiness.is_warning, late)):
        _wait_followed(live, before, seconds)
    time.sleep(live.spec.overlap_seconds)
    live.ensure_alive()
    found = readiness.diagnostics(late, live.title, plan, seconds=seconds, resource_hint=live.resource_hint)
    return without_errors((*readiness.unreachable_routes(plan, wanted, live.title), *found))


def _wait_followed(live: RunningEngine, before: Plan, seconds: float) -> None:
    """Wait until an engine that watches its files has the endpoints of its plan and none of the removed ones, which may
    then end. Raises EngineError LB405."""
    old, new = ({x.name: {y.authority for y in x.endpoints} for x in plan.pools} for plan in (before, live.plan))
    changed = {name: sorted(new[name] | old.get(name, set())) for name in new if new[name] != old.get(name)}
    end = time.monotonic() + seconds
    while changed and live.watches_files:
        found = live.endpoints(changed)
        wrong = [
            address
            for pool, addresses in changed.items()
            for place, address in enumerate(addresses)
            if (found.get((pool, place), NO_ADDRESS) == NO_ADDRESS) is (address in new[pool])
        ]
        if not wrong:
            return
        if time.monotonic() > end:
            message = f"{live.title} has not heard of a change of endpoints after {seconds:g} s: {', '.join(wrong)}"
            raise EngineError(Diagnostic("LB405", message))
        time.sleep(_LOOK_SECONDS)


def refusal(message: str, hint: str = REMEDY) -> Diagnostic:
    """Return LB412 with `message`."""
    return Diagnostic("LB412", message, hint=hint)


def other_version(target: Engine, before: Plan, after: Plan, runs: str) -> tuple[Diagnostic, ...]:
    """Return LB412 when the topology now asks for another version than the one that runs."""
    asked = after.options(target.name).version
    if asked == before.options(target.name).version or target_version(target, asked) == runs:
        return ()
    return (refusal(f"{target.title} {runs} runs, and the topology asks for {asked or 'the newest'} now"),)


def obstacles(
    title: str,
    before: tuple[Plan, ProcessSpec, Mapping[str, str]],
    after: tuple[Plan, ProcessSpec, Mapping[str, str]],
) -> tuple[Diagnostic, ...]:
    """Return LB412 for each reason why an engine started as `before` cannot be reloaded to `after`. Each is the plan,
    the process spec, and the files' texts or digests."""
    (old_plan, old, old_texts), (new_plan, new, new_texts) = before, after
    found: list[Diagnostic] = []
    if new.hot_restart_argv:
        return ()
    if (new.argv, new.env) != (old.argv, old.env):
        found.append(refusal(f"{title} would have to be started with other arguments{_because(old_plan, new_plan)}"))
    for name in sorted({*old_texts, *new_texts}):
        fixed = any(name.startswith(each) if each.endswith("/") else name == each for each in new.fixed)
        if fixed and old_texts.get(name) != new_texts.get(name):
            why = _because(old_plan, new_plan)
            found.append(refusal(f"{title} reads {name} only when it starts, and this change alters it{why}"))
    return tuple(found)


def published_elsewhere(title: str, before: Plan, after: Plan) -> Diagnostic:
    """Return LB412 when docker would need a new container: for other ports or other limits."""
    return refusal(f"the container of {title} would have to be made anew{_because(before, after)}")


def _because(before: Plan, after: Plan) -> str:
    """Name the listeners that changed, when they are why a restart would be needed."""
    old, new = ({x.name: _shape(x) for x in plan.listeners} for plan in (before, after))
    names = [name for name in (*new, *(x for x in old if x not in new)) if old.get(name) != new.get(name)]
    return f" (listener {', '.join(names)})" if names else ""


def _shape(listener: Listener) -> Listener:
    """The listener without its routes."""
    return replace(listener, hosts=(), l4_rules=())
