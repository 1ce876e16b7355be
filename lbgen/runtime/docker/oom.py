"""Tell whether an engine fails to serve because its container is short of memory."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import EngineError
from lbgen.runtime.docker.client import docker_errors

if TYPE_CHECKING:
    from docker.models.containers import Container

_FULL = 0.9  # of its limit; inactive page cache does not count


def memory_hint(handle: Container) -> str:
    """A remedy when the container has reached its memory limit; "" when it has not, or its statistics are missing."""
    with suppress(EngineError), docker_errors(f"looking at the memory of {handle.name}"):
        return _hint(_stats(handle).get("memory_stats", {}))
    return ""


def _stats(handle: Container) -> dict[str, Any]:
    """Docker's statistics of one moment (`one_shot`: without the second sample, which takes a second)."""
    from docker.errors import InvalidVersion

    try:
        found = handle.client.api.stats(handle.id, stream=False, one_shot=True)
    except InvalidVersion:  # of docker 20.10 at least
        found = handle.stats(stream=False)
    return found if isinstance(found, dict) else {}


def _hint(memory: dict[str, Any]) -> str:
    limit = memory.get("limit") or 0
    details = memory.get("stats", {})
    used = (memory.get("usage") or 0) - (details.get("inactive_file") or details.get("total_inactive_file") or 0)
    refused = memory.get("failcnt") or 0  # failed allocations; cgroup v1 only
    if not limit or (used < _FULL * limit and not refused):
        return ""
    uses = f"it uses {used >> 20} of" if used >= _FULL * limit else "it has reached"
    return f"{uses} the {limit >> 20} MiB that containers.memory gives it, and may do little else: give it more"
