"""Cases of routes that a service guards: it admits (all other cases), it refuses, it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from lbgen.conformance.case import Expect
from lbgen.conformance.verify.cases import Phase, ScheduledCase, fault_case, reached_fields
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Forward, Plan, Route
from lbgen.plan.request import Request
from lbgen.runtime.standins.stand_in import Behaviour

REFUSES = Behaviour("fixed", status=401, headers=(("WWW-Authenticate", 'Bearer realm="stand-in"'),), body="no\n")
_CLAUSE = "5.auth-forward"
_MARGIN = 2_500  # ms within which a refusal comes once the service's times are over
_FAILS = (403, 500, 502, 503, 504)  # what a client gets where a service gives no answer


class Question(NamedTuple):
    """What a service is asked for: the path, and the fields of the answer that some route passes on."""

    path: str
    fields: tuple[str, ...]

    @property
    def admits(self) -> Behaviour:
        return Behaviour("fixed", headers=tuple((name, "of the service") for name in self.fields))


def questions(plan: Plan) -> dict[str, tuple[Question, ...]]:
    """What services are asked, by pool; a pool may serve other routes by other paths."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for route in plan.routes:
        if isinstance(route.auth, ForwardAuth):
            path = route.auth.target.partition("?")[0]
            fields = found.setdefault(route.auth.pool, {}).setdefault(path, {})
            fields.update(dict.fromkeys(route.auth.response_headers))
    return {pool: tuple(Question(path, tuple(each)) for path, each in by.items()) for pool, by in found.items()}


def serves_alone(one: ScheduledCase, route: Route) -> ScheduledCase:
    """The case of a guarded route with what breaks all endpoints: those of its own pool alone, so that its service goes
    on. Where the service is in that pool, what it guards is denied."""
    action = route.action
    broken = one.phase in (Phase.HUNG, Phase.REFUSED, Phase.DROPPED, Phase.FOREIGN) and not one.pool
    if broken and isinstance(route.auth, ForwardAuth) and isinstance(action, Forward):
        pools = {target.pool for target in action.targets if target.weight}
        if route.auth.pool in pools and not one.case.script:
            return replace(one, case=replace(one.case, expect=Expect(denied=True, status=_FAILS)))
        if len(pools) == 1:
            return replace(one, pool=next(iter(pools)))
    return one


def forward_auth_cases(plan: Plan, route: Route, hit: Request) -> Iterator[ScheduledCase]:
    """What a client gets while the service of a route refuses, is gone, or is silent."""
    auth = route.auth
    if not isinstance(auth, ForwardAuth):
        return
    pool = plan.pool(auth.pool)
    tried = [f"{pool.field}.{word}" for word in ("protocol", "tls.ca", "tls.server_name", "tls.verify")]
    tried += reached_fields(pool)
    no = fault_case(f"{_CLAUSE}.refuses", hit, route, denied=True, status=401 if auth.redirect_to is None else 302)
    gone = fault_case(f"{_CLAUSE}.gone", hit, route, denied=True, status=_FAILS, within_ms=(0, _MARGIN))
    found = [(no, Phase.REFUSING), (gone, Phase.REFUSED)]
    if auth.connect and auth.response:
        within = (round(0.9 * auth.response), auth.connect + auth.response + _MARGIN)
        found.append(
            (fault_case(f"{_CLAUSE}.silent", hit, route, denied=True, status=_FAILS, within_ms=within), Phase.HUNG)
        )
    for one, phase in found:
        case = replace(one.case, tries_fields=tuple(tried))
        yield replace(one, case=case, phase=phase, pool=auth.pool)
