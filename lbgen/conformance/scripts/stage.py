"""What a script has to work with: where the engine listens, its endpoints, the plan, the case's own parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lbgen.conformance.judge import account_of
from lbgen.conformance.wires import ANYHOW, Asked, Wire, wire_for
from lbgen.plan.simulate import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.conformance.probe import Address, Answer
    from lbgen.plan.model import Plan
    from lbgen.runtime.endpoints import Endpoints


_ANY = Request()


@dataclass(frozen=True, slots=True)
class Stage:
    """`at` is the address of each listener by name. `params` is the case's `with`. `records` reads the engine's access
    log, in lbgen's own schema."""

    at: Mapping[str, Address]
    endpoints: Endpoints
    plan: Plan
    records: Callable[[], list[Mapping[str, object]]]
    params: Mapping[str, Any] = field(default_factory=dict)

    def via(self, listener: str, request: Request = _ANY, asked: Asked = ANYHOW) -> Wire:
        """What comes before HTTP on that listener."""
        return wire_for(self.plan.listener(listener), request, asked)


def get(target: str, *headers: tuple[str, str], method: str = "GET") -> Request:
    """A request with the Host `h`."""
    return Request(method, target, (("Host", "h"), *headers))


def told_of(answer: Answer, what: str) -> str:
    """A part of the endpoint's account, or what came instead of one."""
    told = account_of(answer)
    return str(told[what]) if told is not None else f"status {answer.status} {answer.problem}"
