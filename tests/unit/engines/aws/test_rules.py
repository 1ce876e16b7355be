"""Rules lead where the oracle says, by an evaluator of what the documentation of Amazon's load balancers describes."""

from __future__ import annotations

import random
import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from lbgen.conformance.corpus import corpus
from lbgen.engines.aws.view import Names
from lbgen.plan.model import Mode
from lbgen.plan.request import RefusedError, parse_request
from lbgen.plan.simulate import simulate
from tests.unit.engines.aws.templates import cases, drawn, expressible, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan
    from lbgen.plan.request import ParsedRequest, Request
    from lbgen.plan.simulate import Outcome

REQUESTS = 1_000  # of each example, with --drills 5,000
DRAWN = 10  # random topologies of 200 requests, with --drills 50


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


def expected(outcome: Outcome, method: str) -> tuple[object, ...]:
    if outcome.location is not None:
        return "redirect", outcome.status, _address(outcome.location)
    if outcome.status is not None:
        return "answer", outcome.status, outcome.body if not outcome.made and method != "HEAD" else None
    return "forward", {(each.pool, each.target, each.host) for each in outcome.upstreams}


def found(
    action: dict[str, Any], groups: dict[str, str], listener: Listener, parsed: ParsedRequest
) -> tuple[object, ...]:
    if action["Type"] == "redirect":
        config = action["RedirectConfig"]
        parts = {
            "protocol": listener.scheme,
            "host": parsed.host or "",
            "port": str(listener.port),
            "path": parsed.path.removeprefix("/"),
            "query": parsed.query or "",
        }
        protocol, host, port, path, query = (
            re.sub(r"#\{(\w+)\}", lambda mention: parts[mention[1]], config.get(key, default))
            for key, default in _KEPT.items()
        )
        address = f"{protocol.lower()}://{host}:{port}{path}" + (f"?{query}" if query else "")
        return "redirect", int(config["StatusCode"].removeprefix("HTTP_")), _address(address)
    if action["Type"] == "fixed-response":
        config = action["FixedResponseConfig"]
        return "answer", int(config["StatusCode"]), config.get("MessageBody") if parsed.method != "HEAD" else None
    target, host = parsed.target, parsed.authority
    for transform in action["transforms"]:
        (config,) = (value for key, value in transform.items() if key.endswith("Config"))
        (rewrite,) = config["Rewrites"]
        replacement = rewrite["Replace"].replace("$$", "$")
        if transform["Type"] == "url-rewrite":
            target = re.sub(rewrite["Regex"], lambda _, text=replacement: text, target, count=1)
        else:
            host = re.sub(rewrite["Regex"], lambda _, text=replacement: text, host or "", count=1)
    shares = action.get("ForwardConfig", {}).get("TargetGroups") or [action]
    return "forward", {(groups[each["TargetGroupArn"]["Ref"]], target, host) for each in shares}


_KEPT = {
    "Protocol": "#{protocol}",
    "Host": "#{host}",
    "Port": "#{port}",
    "Path": "/#{path}",
    "Query": "#{query}",
}


def _address(url: str) -> tuple[object, ...]:
    """With the port that a load balancer always writes, and others leave out where it is that of the scheme."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme], parts.path, parts.query


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
        said = found(evaluator.action(listener.port, parsed), groups, listener, parsed)
        want = expected(outcome, parsed.method)
        if said != want:
            wrong.append(f"{request.method} {request.target} {request.headers}: {said}, expected {want}")
    return tried, wrong


@pytest.mark.parametrize("plan", [pytest.param(each, id=each.name) for each in expressible()])
def test_rules_lead_where_the_oracle_says(plan: Plan, every: bool) -> None:
    tried, wrong = differences(plan, 5_000 if every else REQUESTS)
    assert tried
    assert not wrong, f"{len(wrong)} of {tried}: {wrong[:3]}"


def test_rules_of_conformance_cases() -> None:
    for plan in cases():
        if not any(each.mode is Mode.L7 for each in plan.listeners):
            continue
        tried, wrong = differences(plan, 150)
        assert tried
        assert not wrong, f"{plan.name}: {len(wrong)} of {tried}: {wrong[:3]}"


def test_rules_of_random_topologies(every: bool) -> None:
    total = 0
    for plan in drawn(50 if every else DRAWN):
        tried, wrong = differences(plan, 200)
        total += tried
        assert not wrong, f"{plan.name}: {len(wrong)} of {tried}: {wrong[:3]}"
    assert total > DRAWN * 50
