"""The state of each endpoint in a small file, which `lbgen ps` shows and the next agent starts from."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lbgen.agent.health import FULL, Health, share
from lbgen.engines.health import Condition, State

if TYPE_CHECKING:
    from lbgen.engines.agent_spec import AgentSpec

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
            rows.append(_Row(pool.name, target.name, word, *astuple(health)))
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
