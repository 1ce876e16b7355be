"""Templates for Amazon's load balancers: cfn-lint finds nothing, and their rules lead where the oracle says."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

import lbgen
from lbgen.conformance.corpus import corpus
from lbgen.diagnostics import LbgenError
from lbgen.engines.aws import ENGINE
from lbgen.engines.aws.build import Names
from lbgen.engines.verdicts import judge
from lbgen.plan.model import Mode
from lbgen.plan.request import RefusedError, parse_request
from lbgen.plan.simulate import simulate
from lbgen.resources import folder
from tests.topologies import draw
from tests.topologies.run import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Plan
    from lbgen.plan.request import ParsedRequest, Request
    from lbgen.plan.simulate import Outcome

EXAMPLES = folder("examples")
REQUESTS = 1_000  # of each example; once 5,000
DRAWN = 10  # random topologies, once 50, of 200 requests
LINT = shutil.which("cfn-lint", path=str(Path(sys.executable).parent)) or shutil.which("cfn-lint")


def template(plan: Plan) -> dict[str, Any]:
    (file,) = ENGINE.render(plan, ENGINE.versions[0])
    found: dict[str, Any] = yaml.safe_load(file.text)
    return found


def expressible() -> Iterator[Plan]:
    """The examples that the engine does not refuse."""
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        try:
            plan = lbgen.plan(lbgen.load(path))
        except LbgenError:
            continue
        if plan.listeners and not judge(plan, ENGINE, ENGINE.versions[0], ("all",))[1]:
            yield plan


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "engine", lambda name: ENGINE)  # it is not installed


def drawn() -> Iterator[Plan]:
    """Random topologies of what the engine takes."""
    rng, left = random.Random(4), DRAWN
    while left:
        try:
            plan = lbgen.plan(loaded(draw.topology(rng, ("aws",))))
        except LbgenError:
            continue  # fields that exclude each other
        if not judge(plan, ENGINE, ENGINE.versions[0], ("all",))[1]:
            left -= 1
            yield plan


class Evaluator:
    """What a load balancer does with a request by its documentation, from the template alone."""

    def __init__(self, made: dict[str, Any]) -> None:
        resources = made["Resources"]
        self.rules: dict[str, list[dict[str, Any]]] = {}
        self.listeners: dict[int, tuple[str, dict[str, Any]]] = {}
        for name, each in resources.items():
            properties = each["Properties"]
            if each["Type"].endswith("::Listener"):
                self.listeners[properties["Port"]] = (name, properties)
            if each["Type"].endswith("::ListenerRule"):
                self.rules.setdefault(properties["ListenerArn"]["Ref"], []).append(properties)

    def action(self, port: int, parsed: ParsedRequest) -> dict[str, Any]:
        name, listener = self.listeners[port]
        for rule in sorted(self.rules.get(name, []), key=lambda rule: rule["Priority"]):
            if all(_holds(each, parsed) for each in rule["Conditions"]):
                return {**rule["Actions"][0], "transforms": rule.get("Transforms", [])}
        return {**listener["DefaultActions"][0], "transforms": []}


def _holds(condition: dict[str, Any], parsed: ParsedRequest) -> bool:
    (config,) = (value for key, value in condition.items() if key.endswith("Config"))
    values, patterns = config.get("Values", []), config.get("RegexValues", [])
    match condition["Field"]:
        case "host-header":
            return _any(values, patterns, [(parsed.host or "").lower()])
        case "path-pattern":
            return _any(values, patterns, [parsed.path])
        case "http-request-method":
            return parsed.method in values
        case "http-header":
            return _any(values, patterns, parsed.lines(config["HttpHeaderName"]), re.IGNORECASE)
        case "source-ip":
            return any(ip_address(parsed.client) in ip_network(each) for each in values)
        case "query-string":
            pairs = [pair.partition("=")[::2] for pair in (parsed.query or "").split("&")]
            return any(
                _any([value["Key"]], [], [key], re.IGNORECASE) and _any([value["Value"]], [], [text], re.IGNORECASE)
                for value in values
                for key, text in pairs
            )
    raise ValueError(condition["Field"])


def _any(values: list[str], patterns: list[str], texts: Any, flags: int = 0) -> bool:
    wanted = [*map(_pattern, values), *patterns]
    return any(re.search(each, text, flags) for each in wanted for text in texts)


def _pattern(value: str) -> str:
    pieces = re.findall(r"\\.|[*?]|[^*?\\]+", value)
    return "^" + "".join({"*": ".*", "?": "."}.get(x, re.escape(x.removeprefix("\\"))) for x in pieces) + "$"


def requests(plan: Plan, count: int) -> Iterator[Request]:
    """The corpus, then mixtures of its parts."""
    rng, known = random.Random(5), [each for each in corpus(plan) if each.version != "1.0"]
    yield from known[:count]
    for _ in range(count - len(known)):
        one, other, third = (rng.choice(known) for _ in range(3))
        host = [line for line in other.headers if line[0].lower() == "host"]
        others = [line for line in third.headers if line[0].lower() != "host"]
        yield replace(one, headers=(*host, *others), method=rng.choice((one, third)).method)


def expected(outcome: Outcome) -> tuple[object, ...]:
    if outcome.location is not None:
        return "redirect", outcome.status
    if outcome.status is not None:
        return "answer", outcome.status
    return "forward", *sorted(outcome.upstreams and {each.pool for each in outcome.upstreams})


def found(action: dict[str, Any], groups: dict[str, str]) -> tuple[object, ...]:
    if action["Type"] == "redirect":
        return "redirect", int(action["RedirectConfig"]["StatusCode"].removeprefix("HTTP_"))
    if action["Type"] == "fixed-response":
        return "answer", int(action["FixedResponseConfig"]["StatusCode"])
    shares = action.get("ForwardConfig", {}).get("TargetGroups") or [action]
    return "forward", *sorted(groups[each["TargetGroupArn"]["Ref"]] for each in shares)


def _repeats(parsed: ParsedRequest) -> bool:
    """Whether a parameter, a cookie or a field is there twice."""
    cookies = [each.partition("=")[0].strip() for line in parsed.lines("cookie") for each in line.split(";")]
    keys = [pair.partition("=")[0] for pair in (parsed.query or "").split("&")]
    names = [name for name, _ in parsed.headers]
    return any(len(each) != len(set(each)) for each in (cookies, keys, names))


def differences(plan: Plan, count: int) -> tuple[int, list[str]]:
    made = template(plan)
    evaluator, tried, wrong = Evaluator(made), 0, []
    groups = {Names().of("pool", pool.name): pool.name for pool in plan.pools}
    for request in requests(plan, count):
        listener = next(x for x in plan.listeners if x.mode is Mode.L7 and request.listener in ("", x.name))
        outcome = simulate(plan, request)
        if not outcome.well_formed or (outcome.made and outcome.route is not None and outcome.status != 403):
            continue  # refused before any rule
        try:
            parsed = parse_request(request, listener.paths)
        except RefusedError:
            continue
        if _repeats(parsed):
            continue  # which of them counts is an engine's habit
        tried += 1
        said, want = found(evaluator.action(listener.port, parsed), groups), expected(outcome)
        if said != want:
            wrong.append(f"{request.method} {request.target} {request.headers}: {said}, expected {want}")
    return tried, wrong


@pytest.mark.parametrize("plan", [pytest.param(each, id=each.name) for each in expressible()])
def test_rules_lead_where_the_oracle_says(plan: Plan) -> None:
    tried, wrong = differences(plan, REQUESTS)
    assert tried
    assert not wrong, f"{len(wrong)} of {tried}: {wrong[:3]}"


def test_rules_of_random_topologies() -> None:
    total = 0
    for plan in drawn():
        tried, wrong = differences(plan, 200)
        total += tried
        assert not wrong, f"{len(wrong)} of {tried}: {wrong[:3]}"
    assert total > DRAWN * 50


@pytest.mark.skipif(LINT is None, reason="cfn-lint is not installed")
def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    files = []
    for number, plan in enumerate([*expressible(), *drawn()]):
        (file,) = ENGINE.render(plan, ENGINE.versions[0])
        path = tmp_path / f"{number}-{plan.name}.yaml"
        path.write_text(file.text)
        files.append(str(path))
    run = subprocess.run([LINT, *files], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
