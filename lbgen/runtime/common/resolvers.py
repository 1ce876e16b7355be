"""What only this host can tell and a plan may need: the DNS servers that its resolver asks."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.engines.verdicts import judge
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan

_RESOLV_CONF = Path("/etc/resolv.conf")


def judge_with_resolvers(
    plan: Plan, target: Engine, version: str, accept: tuple[str, ...] = ()
) -> tuple[Plan, tuple[Diagnostic, ...]]:
    """The plan to use on this host, and what stops it there.

    An engine that must be told DNS servers (nginx) gets this host's when the topology names none. The others keep their
    own way of resolving, which also knows the hosts file.
    """
    _, problems = judge(plan, target, version, accept)
    if not problems or plan.resolvers:
        return plan, problems
    resolved = replace(plan, resolvers=host_resolvers())
    _, others = judge(resolved, target, version, accept)
    return (resolved, others) if len(others) < len(problems) else (plan, problems)


def host_resolvers(path: Path = _RESOLV_CONF) -> tuple[str, ...]:
    """The servers in resolv.conf, in order; the local one when there are none, as the C library does."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver" and _is_address(words[1]):
            found.append(words[1])
    return tuple(found) or ("127.0.0.1",)


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False
