"""Files that hold the secret of sticky cookies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.sticky import SHORTEST_SECRET, read_secret

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context

_MAKE = f"create a file with at least {SHORTEST_SECRET} random bytes: `openssl rand -hex 32 > FILE`"


def check(context: Context) -> None:
    """LB230: the values in a config come from the secret, so its file must be readable wherever a plan is made."""
    for name, pool in context.model.pools.items():
        if pool.sticky is None or pool.sticky.secret is None:
            continue
        path = context.topology.base / pool.sticky.secret
        try:
            read_secret(path)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f'the secret "{pool.sticky.secret}" cannot be used: {reason}'
            context.add("LB230", f"pools.{name}.sticky.secret", message, _MAKE)
