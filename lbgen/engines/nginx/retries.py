"""Retries: nginx's own, which try each endpoint of the pool once at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.strings import directive
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from lbgen.engines.nginx.view import Line
    from lbgen.plan.policy import Retries

# `error` is a refused connection as well as one that breaks, `timeout` the time to connect as well as to respond.
_CONDITIONS = {
    RetryCause.CONNECT_FAILURE: ("error", "timeout"),
    RetryCause.RESET: ("error",),
    RetryCause.TIMEOUT: ("timeout",),
}
STATUSES = frozenset({403, 404, 429, 500, 502, 503, 504})
"""Statuses that nginx can retry."""


def retry_lines(policy: Retries | None, module: str) -> tuple[Line, ...]:
    """The directives of `module` in a location. nginx repeats POST, PATCH and LOCK only where nothing was sent yet,
    which is all that `connect_failure` asks for, unless `non_idempotent` is set."""
    if policy is None:
        return ()
    causes = {word for cause in policy.causes for word in _CONDITIONS[cause]}
    conditions = [*sorted(causes), *(f"http_{status}" for status in policy.statuses)]
    if policy.all_methods and (policy.statuses or policy.causes - {RetryCause.CONNECT_FAILURE}):
        conditions.append("non_idempotent")
    return (
        directive(f"{module}_next_upstream", *conditions),
        directive(f"{module}_next_upstream_tries", str(policy.max + 1)),
    )
