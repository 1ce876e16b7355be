"""The corpus reaches every rule and is stable."""

from lbgen.conformance.case import case_files
from lbgen.conformance.corpus import corpus
from lbgen.conformance.prepare import plan_of
from lbgen.plan.model import Mode
from lbgen.plan.simulate import simulate


def test_every_rule_is_hit_and_missed() -> None:
    for file in case_files():
        plan = plan_of(file.topology)
        requests = corpus(plan)
        assert requests == corpus(plan)
        assert len(set(requests)) == len(requests)
        outcomes = [simulate(plan, request) for request in requests]
        hit = {o.rule for o in outcomes}
        rules = {r.id for x in plan.listeners if x.mode is Mode.L7 for t in x.hosts for r in t.rules}
        assert rules <= hit, (file.name, rules - hit)
        if rules:
            assert len(requests) > 5 * len(rules)


def test_requests_are_sendable() -> None:
    for file in case_files():
        for request in corpus(plan_of(file.topology)):
            for name, value in request.headers:
                (name + value).encode("latin-1")
            request.target.encode("ascii")
