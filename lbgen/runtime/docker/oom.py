"""A container that does not come to serve -> whether that is for its memory: with too little, an engine only crawls."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import EngineError
from lbgen.runtime.docker.client import docker_errors

if TYPE_CHECKING:
    from docker.models.containers import Container

_FULL = 0.9  # of its limit; what is kept of files that nobody reads does not count


def memory_hint(handle: Container) -> str:
    """The remedy where its memory is full, or was; empty where it is not, nobody knows, or it ended meanwhile."""
    with suppress(EngineError), docker_errors(f"looking at the memory of {handle.name}"):
        return _hint(_stats(handle).get("memory_stats", {}))
    return ""


def _stats(handle: Container) -> dict[str, Any]:
    """What docker counts now, without its second look, for which it takes a second."""
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
    refused = memory.get("failcnt") or 0  # how often the kernel had none to give; told by cgroup v1 alone
    if not limit or (used < _FULL * limit and not refused):
        return ""
    uses = f"it uses {used >> 20} of" if used >= _FULL * limit else "it has reached"
    return f"{uses} the {limit >> 20} MiB that containers.memory gives it, and may do little else: give it more"
