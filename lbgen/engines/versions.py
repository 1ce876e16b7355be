"""Versions of engines: which can serve a topology, and a warning for one that lbgen does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import NOWHERE, Diagnostic
from lbgen.engines.api import Engine, engine, engine_names, is_known, target_version, version_key
from lbgen.engines.verdicts import judge
from lbgen.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.diagnostics import Span
    from lbgen.plan.model import Plan


def unknown_version(target: Engine, version: str, span: Span = NOWHERE, field: str = "") -> Iterator[Diagnostic]:
    """LB307 where lbgen does not know `version`, which gets the files for another one."""
    if not is_known(target, version):
        message = (
            f"lbgen does not know {target.title} {version}, which gets the files for {target_version(target, version)}"
        )
        hint = f"lbgen fingerprint {target.name} shows what it does otherwise; known: {', '.join(target.versions)}"
        yield Diagnostic("LB307", message, span, field, hint, Severity.WARNING)


def obstacles_by_version(plan: Plan, target: Engine) -> dict[str, tuple[Diagnostic, ...]]:
    """By supported version, newest first, what stops it from serving `plan`; nothing where it can."""
    versions = sorted(target.versions, key=version_key, reverse=True)
    return {version: judge(plan, target, version)[1] for version in versions}


def unknown_versions(plan: Plan) -> tuple[Diagnostic, ...]:
    """LB307 for each version that the topology asks for and lbgen does not know; UsageError LB305 for one too old."""
    return tuple(
        warning
        for name in engine_names()
        if (asked := plan.options(name).version) is not None
        for field in (f"engines.{name}.version",)
        for warning in unknown_version(engine(name), asked, plan.span(field), field)
    )
