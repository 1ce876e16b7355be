"""A running engine, a process or a container: the steps by which it takes other files, and takes the earlier ones back.

The steps are written once; what a runtime adds is how it reads and writes files, runs commands, signals and asks.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from signal import Signals

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Incremental, LoadProgress, ProcessSpec, Staged
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.health import Condition
from lbgen.engines.rendered import Rendered, with_texts
from lbgen.plan.model import Plan
from lbgen.runtime.common.driver import reads_by_itself
from lbgen.runtime.common.health import status_engine

STAGE_SECONDS = 10.0  # for an engine to take over a stage
_LOOK_SECONDS = 0.01  # at first; the pause grows


class RulesChange(Struct, frozen=True):
    """The part of an engine's rules in the kernel that a reload changes: `argv` loads `text` from the file of the name
    `file` in the engine's folder; without text all rules are loaded, and then `leftovers` in its place. As long as that
    file has text, the kernel may lack what it says."""

    file: str
    text: str
    argv: tuple[str, ...]
    leftovers: str = ""


class RunningEngine(ABC):
    """`engine` is its name in the stack, `title` has the version of its program; it serves `plan` by `spec`, and sees
    this process at the address `client`. `watches_files`: it reads all files replaced last by itself, so that it needs
    neither signal nor hot restart. Methods raise OSError or EngineError."""

    def __init__(self, engine: str, title: str, plan: Plan, spec: ProcessSpec, client: str) -> None:
        self.engine = engine
        self.title = title
        self.plan = plan
        self.spec = spec
        self.client = client
        self.watches_files = False
        self._change: RulesChange | None = None

    @abstractmethod
    def address(self, listener: str) -> tuple[str, int]:
        """The address of a listener as seen from this process."""

    @abstractmethod
    def read(self, name: str) -> str:
        """The text of one of its files, "" without one."""

    @abstractmethod
    def changed(self, rendered: Rendered) -> Collection[str]:
        """The names of files that `rendered` writes otherwise than they are, or removes."""

    @abstractmethod
    def save(self, rendered: Rendered) -> None:
        """Save what `rendered` changes, for `put_saved_back`."""

    @abstractmethod
    def saved_texts(self) -> Mapping[str, str] | None:
        """The texts of the files that `save` saved; None when it saved none."""

    @abstractmethod
    def reverts_by_itself(self, saved: Mapping[str, str]) -> bool:
        """Whether the engine reads all that differs from `saved` by itself."""

    @abstractmethod
    def write(self, rendered: Rendered) -> None:
        """Replace its files by those of `rendered`."""

    @abstractmethod
    def put_saved_back(self) -> None:
        """Restore what `save` saved."""

    @abstractmethod
    def put(self, files: Mapping[str, str]) -> None:
        """Rename files with these texts into their places."""

    @abstractmethod
    def put_rules(self, name: str, text: str) -> None:
        """Write the text of a file that a command is to load."""

    @abstractmethod
    def watched_texts(self) -> Mapping[str, str]:
        """The files that it watches, by name."""

    @abstractmethod
    def run(self, command: Sequence[str]) -> None:
        """Run a command beside it. EngineError where it fails."""

    @abstractmethod
    def signal(self, number: Signals, plan: Plan) -> None:
        """Have it load its files, which are those of `plan`, by a signal."""

    @abstractmethod
    def hot_restart(self, plan: Plan, spec: ProcessSpec) -> None:
        """Start the process that takes over from it."""

    @abstractmethod
    def stop_agent(self) -> None:
        """Stop the agent, whose files would belong to the plan before; `reload` starts it again."""

    @abstractmethod
    def start_agent(self) -> None:
        """Start the agent again, which continues from its saved results."""

    @abstractmethod
    def agent_files(self, order: str) -> Mapping[str, str]:
        """The files that the agent writes for that `order`, with the health that it already observed."""

    @abstractmethod
    def ask(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        """What its admin port answers, by path; None when it does not."""

    @abstractmethod
    def mark(self) -> float:
        """The end of what it has written, for `output`."""

    @abstractmethod
    def output(self, mark: float) -> str:
        """What it wrote after that."""

    @abstractmethod
    def resource_hint(self) -> str:
        """Which resource it lacks, and the remedy; empty when that is unknown."""

    @abstractmethod
    def wait_listening(self, seconds: float) -> None:
        """EngineError LB403 when it ended, or does not listen in time."""

    @abstractmethod
    def ensure_alive(self) -> None:
        """EngineError LB403 when it has ended."""

    def endpoints(self, pools: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, int], Condition]:
        """The health of these addresses (`host:port`) by pool and index; empty when it does not report that."""
        reporter = status_engine(self.engine)
        said = self.ask(reporter.status_paths) if reporter is not None else None
        return reporter.health(pools, said) if reporter is not None and said is not None else {}

    def replace_files(self, rendered: Rendered) -> None:
        """Replace the files and keep the earlier ones for `restore`."""
        self.watches_files = reads_by_itself(self.spec, self.changed(rendered))
        self._change = self._rules_change(rendered)
        self.save(rendered)
        if self.watches_files:
            rendered = with_texts(rendered, self._put_in_stages(self._watched(rendered)))
        self.write(rendered)

    def restore(self) -> None:
        """Restore the files that `replace_files` kept."""
        self._change = None
        saved = self.saved_texts()
        if saved is None:
            return
        self._change = self._rules_change(saved, whole=True)
        self.watches_files = self.reverts_by_itself(saved)
        if self.watches_files:
            try:
                self._put_in_stages(self._watched(saved))
            except EngineError:
                self.watches_files = False  # it does not take them back by itself
        self.put_saved_back()

    def reload(self, plan: Plan, spec: ProcessSpec) -> None:
        """Have the engine load its files, which are those of `plan`; `spec` is how it would be started on them."""
        if spec.kernel:
            self._load_rules(spec)
            if spec.argv and spec.reload is not None:
                self.signal(spec.reload, plan)
        elif spec.hot_restart_argv and not self.watches_files:
            self.hot_restart(plan, spec)
        elif spec.reload is not None:
            self.signal(spec.reload, plan)
        self.plan, self.spec = plan, spec
        if spec.agent:
            self.start_agent()

    def _watched(self, files: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in files.items() if self.spec.watches(name)}

    def _rules_change(self, after: Mapping[str, str], *, whole: bool = False) -> RulesChange | None:
        """The change of the engine's rules to the files `after` (texts by name), with `whole` by loading all of them;
        None for an engine that always does."""
        target = engine_by_name(self.engine) if self.spec.change else None
        if not isinstance(target, Incremental):
            return None
        before = {file: self.read(file) for file in after}
        whole = whole or bool(self.read(target.change_file))
        text = "" if whole else target.change(before, after)
        return RulesChange(target.change_file, text, self.spec.change, target.leftovers(before, after))

    def _load_rules(self, spec: ProcessSpec) -> None:
        """Load the change; where there is none, or the kernel has other rules than those before it, all of them, and
        remove what that leaves. EngineError when the kernel refuses them."""
        change = self._change
        loaded = False
        if change is not None and change.text:
            self.put_rules(change.file, change.text)
            with suppress(EngineError):
                self.run(change.argv)
                loaded = True
        if not loaded:
            for command in spec.setup:
                self.run(command)
        if change is not None:
            if not loaded and change.leftovers:
                self.put_rules(change.file, change.leftovers)
                with suppress(EngineError):  # they serve nothing
                    self.run(change.argv)
            self.put_rules(change.file, "")
        for command in set(self.spec.teardown) - set(spec.teardown):
            self.run(command)

    def _put_in_stages(self, after: Mapping[str, str]) -> dict[str, str]:
        """Bring the engine from the files that it watches to `after`, each stage when it has taken over the one before;
        returns those that its stages want in the end. Nothing happens for an engine without stages.

        Raises EngineError LB403 when it refuses one, with its reason, or does not take it over in time.
        """
        try:
            target = engine_by_name(self.engine)
        except UsageError:  # uninstalled since
            return {}
        if not isinstance(target, Staged):
            return {}
        found: dict[str, str] = {}
        refusals: int | None = None
        for stage in target.stages(self.watched_texts(), after):
            if refusals is None:
                refusals = self._wait_loaded(target, {}).refusals
            mark = self.mark()
            self.put(stage)
            if self._wait_loaded(target, stage, refusals).refusals > refusals:
                message = f"{self.title} refuses the change; it said:\n{self.output(mark).rstrip()}"
                raise EngineError(Diagnostic("LB403", message))
            found |= stage
        return found

    def _wait_loaded(self, target: Staged, stage: Mapping[str, str], refusals: int | None = None) -> LoadProgress:
        """Wait until it has taken over the stage, or refused more than `refusals` changes. EngineError LB403."""
        end, pause = time.monotonic() + STAGE_SECONDS, _LOOK_SECONDS
        while True:
            late = time.monotonic() > end
            missing: tuple[str, ...] = ("its admin port does not answer",)
            if (answers := self.ask(target.progress_paths)) is not None:
                progress = target.load_progress(stage, answers)
                missing = progress.missing
                # First checks may take longer: the change is not refused for that.
                if not stage or (not missing and (progress.settled or late)):
                    return progress
                if refusals is not None and progress.refusals > refusals:
                    return progress
            self.ensure_alive()
            if late:
                message = f"{self.title} has not taken over the change after {STAGE_SECONDS:g} s: {', '.join(missing)}"
                raise EngineError(Diagnostic("LB403", message))
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)
