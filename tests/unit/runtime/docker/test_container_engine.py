"""What is said of a container that ended; with too little memory an engine dies or only crawls, as the kernel likes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lbgen.runtime.docker.container_engine import _exit_reason


def ended(*, killed: bool, memory: int) -> Any:  # stands in for `Found`
    """Found by docker, with no more than is asked of it."""
    return SimpleNamespace(
        handle=SimpleNamespace(
            attrs={"State": {"OOMKilled": killed}, "HostConfig": {"Memory": memory}, "Config": {"Image": "i"}}
        )
    )


@pytest.mark.parametrize(
    ("killed", "said"), [(True, "more memory than the 16 MiB that containers.memory"), (False, "")]
)
def test_one_that_was_killed_for_memory_says_so(killed: bool, said: str) -> None:
    found = _exit_reason(ended(killed=killed, memory=16 << 20), "")
    assert said in found
    assert bool(found) is killed
