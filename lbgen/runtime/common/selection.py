"""Chooses the engines that run, the offsets of their ports, and what they need of this host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.engines.api import Deployed, Engine, NeedsKernel
from lbgen.engines.verdicts import judge
from lbgen.plan.model import Listener, Plan
from lbgen.runtime.common import ports

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


def ensure_runs_here(target: Engine) -> None:
    """EngineError LB436 for an engine that others run."""
    if isinstance(target, Deployed):
        hint = f"`lbgen render TOPOLOGY -e {target.name} -o DIR`, then `{target.deploy_command}`"
        raise EngineError(Diagnostic("LB436", f"{target.title} is deployed, not run by lbgen", hint=hint))


def ensure_kernel(target: Engine) -> None:
    """EngineError LB432 where this kernel lacks a part that the engine works with."""
    if lacking := missing_in_kernel(target):
        raise EngineError(lacking)


_ROUTES = 1_000


def for_routes(plan: Plan, seconds: float) -> float:
    """Return `seconds`, which hold for up to 1,000 routes, scaled in proportion for plans with more."""
    return seconds * max(1.0, len(plan.routes) / _ROUTES)


C = TypeVar("C")
Skipped = tuple[tuple[str, tuple[Diagnostic, ...]], ...]
_OFFSETS = (*range(10_000, 24_000, 1_000), *range(1_000, 10_000, 1_000), *range(-1_000, -24_000, -1_000))


def choose(
    engines: Sequence[Engine], decide: Callable[[Engine], C], *, insist: bool, named: Collection[str] = ()
) -> tuple[tuple[C, ...], Skipped]:
    """What `decide` made of each engine, and those for which it raised, with the reasons. `insist`: they were named, so
    that it is an error, as always for those in `named`; one that only needs root is skipped either way while another
    can go on. Raises LbgenError."""
    chosen: list[C] = []
    skipped: list[tuple[str, tuple[Diagnostic, ...]]] = []
    for target in engines:
        try:
            ensure_runs_here(target)
            chosen.append(decide(target))
        except LbgenError as error:
            needs_root = all(each.code == "LB407" for each in error.diagnostics)
            if (insist or target.name in named) and not (needs_root and len(engines) > 1):
                raise
            skipped.append((target.name, error.diagnostics))
    if not chosen:
        found = tuple(each for _, reasons in skipped for each in reasons)
        kind = EngineError if all(each.code.startswith("LB4") for each in found) else LbgenError
        raise kind(found or Diagnostic("LB402", "no engine was named, and none is installed"))
    return tuple(chosen), tuple(skipped)


def configured(plan: Plan) -> frozenset[str]:
    """The engines of which the topology asks something that no other engine has, such as direct forwarding."""
    return frozenset(use.engine for use in plan.uses_of("engines.forwarding.direct"))


def offsets(
    plan: Plan,
    engines: Sequence[tuple[str, str]],
    before: Mapping[str, int],
    ours: Collection[int],
    outside: Callable[[Listener], str],
) -> dict[str, int]:
    """Return what is added to every port of each of `engines` (name and title): 0 for a single one, else a range of its
    own below the ephemeral ports, which is free or among `ours`; the one it had `before` where that is still so.
    `outside`: where a listener is on the host. Raises EngineError LB404."""
    if len(engines) < 2:
        return dict.fromkeys((name for name, _ in engines), 0)
    places = [(outside(x), x.port) for x in plan.listeners]
    if plan.metrics is not None:
        places.append((plan.metrics.address, plan.metrics.port))
    if plan.acme is not None:
        places.append((ports.LOOPBACK, plan.acme.port))
    taken: set[int] = set()
    found: dict[str, int] = {}

    def usable(address: str, port: int) -> bool:
        in_range = ports.first_unprivileged() <= port < ports.first_ephemeral()
        return in_range and port not in taken and (port in ours or ports.is_free(address, port))

    for name, title in engines:
        for offset in (*((before[name],) if before.get(name) else ()), *_OFFSETS):
            moved = [(address, port + offset) for address, port in places]
            if all(usable(address, port) for address, port in moved):
                found[name] = offset
                taken |= {port for _, port in moved}
                break
        else:
            for x in plan.listeners:  # tells when it is the address that does not serve
                ports.claim(outside(x), ports.free_port(), f"{x.field}.address")
            raise EngineError(Diagnostic("LB404", f"no free range of ports was found for {title}"))
    return found
