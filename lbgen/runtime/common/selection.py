"""Chooses the engines that run, and the offsets of their ports; the same on every runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.plan.features import Feature
from lbgen.runtime.common import ports

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Listener, Plan

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
    return frozenset(use.engine for use in plan.uses if use.feature is Feature.DIRECT)


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
