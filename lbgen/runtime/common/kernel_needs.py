"""Parts of this host's kernel that an engine works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import NeedsKernel

if TYPE_CHECKING:
    from lbgen.engines.api import Engine


def missing_in_kernel(target: Engine) -> tuple[Diagnostic, ...]:
    """LB432 for each part that this kernel lacks or has not loaded."""
    if not isinstance(target, NeedsKernel):
        return ()
    return tuple(
        Diagnostic(
            "LB432",
            f"{target.title} needs {need.name}, and this host's kernel has none (there is no {need.path})",
            hint=f"load it (`{need.load}`), or use a host whose kernel has it; `lbgen render` and `check` need none",
        )
        for need in target.kernel_needs
        if not Path(need.path).exists()
    )


def ensure_kernel(target: Engine) -> None:
    """EngineError LB432 where this kernel lacks a part that the engine works with."""
    if lacking := missing_in_kernel(target):
        raise EngineError(lacking)
