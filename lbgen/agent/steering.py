"""The files by which the agent steers an engine: which weights they hold, and how the engine loads them.

Apart from `run`, so that a reload need not import its clients."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from lbgen.agent import state_file
from lbgen.agent.state_file import FULL, Health, replace_file, share
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.agent_spec import AgentSpec, BalancedPool, Steered
from lbgen.engines.api import Incremental, engine

COUNT_SECONDS = 0.2  # between two counts
_NEW = 1 / 3  # what the newest count has of the average: with the cube, shares settle within a second
_NOTABLE = 1.25  # shares that change by less are not loaded into the kernel


def average(
    before: Mapping[tuple[str, int], float], counts: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], float]:
    """The moving averages of connections by endpoint after one more count."""
    keys = before.keys() | counts.keys()
    found = {key: before.get(key, 0.0) * (1 - _NEW) + counts.get(key, 0) * _NEW for key in keys}
    return {key: value for key, value in found.items() if value > 0.01}


def shares(pool: BalancedPool, averages: Mapping[tuple[str, int], float]) -> dict[str, int]:
    """Percent of its weight that each endpoint of `pool` gets: FULL for the one with the fewest connections for its
    weight, and at least 1."""
    weighted = [x for x in pool.endpoints if x.weight]
    if not pool.least:
        return {x.name: FULL for x in weighted}
    mean = sum(x.weight for x in weighted) / max(1, len(weighted))
    loads = {x.name: 1 + averages.get((x.host, x.port), 0.0) * mean / x.weight for x in weighted}
    least = min(loads.values(), default=1.0)
    return {name: max(1, round(FULL * (least / load) ** 3)) for name, load in loads.items()}


def without_full(
    pool: BalancedPool, percents: Mapping[str, int], counts: Mapping[tuple[str, int], int]
) -> dict[str, int]:
    """These shares, 0 for endpoints that have as many connections as they may. Where all have, as they were: the kernel
    closes what is too much, and backups are not for that."""
    full = {x.name for x in pool.endpoints if pool.most is not None and counts.get((x.host, x.port), 0) >= pool.most}
    if all(x.name in full for x in pool.endpoints if x.weight and not x.backup):
        return dict(percents)
    return {name: 0 if name in full else percent for name, percent in percents.items()}


def differ(one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether any share of any pool differs so much that the kernel should know."""
    return any(
        not before / _NOTABLE <= percent <= before * _NOTABLE
        for pool, now in other.items()
        for name, percent in now.items()
        for before in [one.get(pool, {}).get(name, FULL)]
    )


READER = msgspec.json.Decoder(AgentSpec)


def steered_engine(name: str) -> Steered:
    """The engine of that name. Raises EngineError LB410 when it does not use an agent."""
    target = engine(name)
    if not isinstance(target, Steered):
        raise EngineError(Diagnostic("LB410", f"{target.title} does not use an agent"))
    return target


def steering(
    spec: AgentSpec,
    states: state_file.States,
    steered: Steered,
    loads: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> Mapping[str, str]:
    """The engine's files for those states and loads; an endpoint without a state is up."""
    now = time.time()
    up = Health(now)
    shares = {
        pool.name: {t.name: share(states.get((pool.name, t.name), up), now, pool.slow_start) for t in pool.targets}
        for pool in spec.pools
    }
    for pool, percents in loads.items():
        healthy = shares.setdefault(pool, {})
        for name, percent in percents.items():
            own = healthy.get(name, FULL)
            healthy[name] = max(1, own * percent // FULL) if own and percent else 0
    return steered.set_weights(spec.steering, shares)


def steering_files(order: str, folder: Path) -> Mapping[str, str]:
    """The engine's files for a new specification (`order`, the text of its file) with the states that the agent in
    `folder` has found, so that the engine does not use endpoints that are down."""
    spec = READER.decode(order)
    return steering(spec, state_file.last_states(folder), steered_engine(spec.engine))


_COMMAND_SECONDS = 10
_ALL = "# All files are loaded.\n"
_PATH = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"  # after the caller's own


class EngineFiles:
    """`resumed`: the last agent may have written files that the engine has not loaded."""

    def __init__(
        self, spec: AgentSpec, folder: Path, steered: Steered, log: Callable[[str], None], *, resumed: bool
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.steered = steered
        self.log = log
        # Whether files were written that the engine has not loaded.
        self.unloaded = bool(self._text(self._change_file)) if self._change_file else resumed
        self._failure = ""  # why, as far as it was logged

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
    return signal_engine(spec.program, spec.pid_file, spec.reload, folder) if spec.reload else ""


def signal_engine(program: str, pid_file: str, name: str, folder: Path) -> str:
    """Send the signal of that name to the process of `program` whose pid is in `pid_file`; returns why it could not."""
    absent = f"no process of {program} has the pid in {pid_file}"
    try:
        pid = int((folder / pid_file).read_text(encoding="utf-8"))
        if pid > 0 and Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == program:
            os.kill(pid, signal.Signals[name])
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
