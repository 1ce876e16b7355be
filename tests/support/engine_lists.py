"""The engines that tests choose among."""

from __future__ import annotations

import pytest

from lbgen.engines.api import Level, engine, engine_names
from lbgen.plan.features import Feature
from lbgen.runtime.common.selection import missing_in_kernel

L7_ENGINES = tuple(
    name
    for name in engine_names()
    if engine(name).verdict(Feature.L7, engine(name).versions[0]).level is not Level.REFUSED
)


def of_this_kernel() -> tuple[str, ...]:
    """All engines but those that work with a part of the kernel that this one lacks."""
    return tuple(name for name in engine_names() if not missing_in_kernel(engine(name)))


def need_kernel(name: str) -> None:
    """Skip a test of an engine that works with a part of the kernel that this one lacks."""
    for lacking in missing_in_kernel(engine(name)):
        pytest.skip(lacking.message)
