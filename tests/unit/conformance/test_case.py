"""The cases themselves: readable, unique, and their literals agree with the oracle."""

import pytest
from msgspec.structs import replace

from lbgen.conformance.case import CaseError, case_files, load_file
from lbgen.conformance.judge import contradictions
from lbgen.conformance.prepare import plan_of
from lbgen.conformance.run_case import fill_placeholders
from lbgen.conformance.scripts import SCRIPTS
from lbgen.conformance.scripts.steps import KEYS
from lbgen.plan.simulate import simulate

FILES = case_files()


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_literals_agree_with_the_oracle(file) -> None:
    plan = plan_of(file.topology)
    found = []
    for case in file.cases:
        if case.oracle:
            case = fill_placeholders(case, plan)
            outcome = simulate(plan, case.request)
            found += [f"{case.id}: {d}" for d in contradictions(case.expect, outcome)]
    assert found == []


def test_there_are_enough_cases_and_none_twice() -> None:
    cases = [case for file in FILES for case in file.cases]
    assert len(cases) >= 170
    assert {case.clause.split(".")[0] for file in FILES for case in file.cases} >= {"2", "3", "4", "5", "6", "7"}
    for file in FILES:
        assert len({c.id for c in file.cases}) == len(file.cases)


def test_a_clause_lives_in_one_file_or_its_name_says_more() -> None:
    ids = [(case.clause, file.name) for file in FILES for case in file.cases]
    assert all(clause.count(".") >= 2 for clause, _ in ids)


def test_scripts_are_used_and_known() -> None:
    used = {case.script for file in FILES for case in file.cases if case.script}
    of_any_topology = {name for name, script in SCRIPTS.items() if "scripts.topology_" in script.__module__}
    assert used == set(SCRIPTS) - of_any_topology  # which `lbgen verify` uses


def test_steps_have_known_keys() -> None:
    for case in (case for file in FILES for case in file.cases if case.script in KEYS):
        for steps in case.params.get("connections", [case.params.get("steps")]):
            for step in steps:
                assert not step.keys() - KEYS[case.script], case.id


def test_a_wrong_literal_is_found() -> None:
    file = next(f for f in FILES if f.name == "2-precedence")
    plan = plan_of(file.topology)
    case = file.cases[0]
    outcome = simulate(plan, case.request)
    for wrong in ({"route": "x"}, {"pool": "x"}, {"target": "/x"}, {"host": "x"}, {"sends": {"x-a": "1"}}):
        assert list(contradictions(replace(case.expect, **wrong), outcome))


@pytest.mark.parametrize(
    "text",
    [
        "title: t\ntopology: {}\ncases: [{clause: 1.a.b, asks: GET /}]\n",
        "title: t\ntopology: {}\ncases: [{clause: 1.a.b, expect: {state: 1}}]\n",
        "title: t\ntopology: {}\ncases: [{clause: 1.a.b, headers: [nocolon]}]\n",
        "title: t\ntopology: {}\ncase: []\n",
    ],
)
def test_odd_files_are_refused(tmp_path, text) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(CaseError):
        load_file(path)
