"""The state of each endpoint: how checks change it, and the small file of it, which `lbgen ps` shows and the next agent
starts from."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec.structs
from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.agent_spec import AgentSpec
from lbgen.engines.health import Condition, State

FULL = 100
_TENTHS = 10


class Health(Struct, frozen=True):
    """`since`: when it became so (seconds of the epoch). `streak`: checks in a row that say otherwise. `error`: the
    message of the last failed check. `returned`: it was down before, so slow start applies. `checked`: at least one
    check has run; before that it counts as up."""

    since: float
    up: bool = True
    streak: int = 0
    error: str = ""
    returned: bool = False
    checked: bool = False


def apply_check(health: Health, error: str, now: float, *, fall: int, rise: int) -> Health:
    """`health` after one more check, whose `error` is empty on success.

    `fall` failures in a row take an endpoint down, `rise` successes in a row bring it back. The first check of all
    decides alone, as with HAProxy and Envoy.
    """
    if (not error) == health.up:
        return replace(health, streak=0, error=error, checked=True)
    streak = health.streak + 1
    if health.up:
        if streak >= fall or not health.checked:
            return Health(now, up=False, error=error, checked=True)
        return replace(health, streak=streak, error=error)
    return Health(now, returned=True, checked=True) if streak >= rise else replace(health, streak=streak)


def share(health: Health, now: float, slow_start: int) -> int:
    """Percent of its weight now: 0 = down; after an outage it grows by tenths over `slow_start` milliseconds."""
    if not health.up:
        return 0
    elapsed = (now - health.since) * 1000
    if not health.returned or elapsed >= slow_start:
        return FULL
    return max(1, int(elapsed * _TENTHS / slow_start)) * _TENTHS


def next_growth(health: Health, now: float, slow_start: int) -> float | None:
    """When `share` grows next (seconds of the epoch); None when it does not grow."""
    percent = share(health, now, slow_start)
    if percent in (0, FULL):
        return None
    return health.since + (percent // _TENTHS + 1) * slow_start / _TENTHS / 1000


FILE = "agent.state.json"
BEAT_SECONDS = 10  # how often the file is touched, so that readers see that the agent runs
_FRESH_SECONDS = 60
States = dict[tuple[str, str], Health]  # by pool and name of the endpoint
Conditions = dict[tuple[str, str], Condition]  # for people, by the same


class _Row(msgspec.Struct, frozen=True):
    pool: str
    endpoint: str
    state: State
    since: float
    up: bool
    streak: int
    error: str
    returned: bool
    checked: bool = False

    @property
    def health(self) -> Health:
        return Health(self.since, self.up, self.streak, self.error, self.returned, self.checked)


class _File(msgspec.Struct, frozen=True):
    pid: int
    endpoints: list[_Row]


def to_json(spec: AgentSpec, states: Mapping[tuple[str, str], Health]) -> str:
    """The file's text for `states`."""
    rows = []
    for pool in spec.pools:
        for target in pool.targets:
            health = states[pool.name, target.name]
            word = _word(health, target.weight, pool.slow_start)
            rows.append(_Row(pool.name, target.name, word, *msgspec.structs.astuple(health)))
    return msgspec.json.format(msgspec.json.encode(_File(os.getpid(), rows)), indent=1).decode() + "\n"


def _word(health: Health, weight: int, slow_start: int) -> State:
    if not health.up:
        return State.DOWN
    if not weight:
        return State.DRAINING
    return State.UP if share(health, time.time(), slow_start) == FULL else State.STARTING


def read(folder: Path) -> Conditions:
    """The conditions in the file, however old; empty when it cannot be read."""
    return _shown(_rows(folder))


def parse(content: bytes) -> Conditions:
    """The conditions in a file of that content; empty when it is malformed."""
    try:
        return _shown(_decode(content))
    except (ValueError, msgspec.MsgspecError):
        return {}


def _shown(rows: list[_Row]) -> Conditions:
    return {(row.pool, row.endpoint): Condition(row.state, row.since, row.error) for row in rows}


def last_states(folder: Path) -> States:
    """The states that the last agent left; empty when it ended more than a minute ago."""
    try:
        age = time.time() - (folder / FILE).stat().st_mtime
    except OSError:
        return {}
    return {(row.pool, row.endpoint): row.health for row in _rows(folder)} if age <= _FRESH_SECONDS else {}


def touch(folder: Path) -> None:
    """Touch the file. Raises OSError."""
    os.utime(folder / FILE)


def replace_file(path: Path, content: str) -> None:
    """Replace a file atomically. Raises OSError."""
    staged = path.with_name(f".{path.name}.new")
    staged.write_text(content, encoding="utf-8")
    staged.replace(path)


def _rows(folder: Path) -> list[_Row]:
    try:
        return _decode((folder / FILE).read_bytes())
    except (OSError, ValueError, msgspec.MsgspecError):
        return []


def _decode(content: bytes) -> list[_Row]:
    return msgspec.json.decode(content, type=_File).endpoints
