"""A topology of as many routes as asked, and the count of the lines and calls that a piece of work executes.

They are counted instead of seconds: they are the same on every machine and beside every other process. Lines show a
loop within one function, such as a comprehension, which calls do not.
"""

from __future__ import annotations

import cProfile
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

MOST = 2.2  # times as much for twice the routes
_MOST_OF_ONE = 2.5  # the same of a single function, of which some sort
_FEW_CALLS, _FEW_LINES = 2, 20  # of one function for each route, of which any() may stop at any
_LINES = "lines of "


def topology(
    routes: int, *, hosts: int = 100, pools: int = 50, changed: bool = False, listeners: int = 1, port: int = 8080
) -> str:
    """`routes` routes in `hosts` hosts, each with a prefix of its own, and `pools` pools of two endpoints with active
    checks; `changed` gives one route another prefix. All routes are on each of the `listeners`, from `port` on."""
    ports = ", ".join(f"web{n or ''}: {{ port: {port + n} }}" for n in range(listeners))
    lines = ["version: 1", "name: growth", "access_log: json", f"listeners: {{ {ports} }}", "pools:"]
    for n in range(pools):
        endpoints = ", ".join(f'{{ address: "10.0.{n}.{m}:8080" }}' for m in (1, 2))
        lines.append(f"  p{n}: {{ endpoints: [{endpoints}], health: {{ active: {{ path: /healthz }} }} }}")
    lines.append("routes:")
    for n in range(routes):
        path = f"/changed{n}" if changed and n == routes // 2 else f"/s{n}"
        lines.append(
            f"  - {{ name: r{n}, hosts: [h{n % hosts}.example.com], match: [{{ path: {{ prefix: {path} }} }}], "
            f"forward: p{n % pools} }}"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Growth:
    """How many times as many lines and calls twice the routes take: all, and of the function that grows most."""

    all: float
    worst: float
    function: str

    @property
    def linear(self) -> bool:
        return self.all <= MOST and self.worst <= _MOST_OF_ONE


def growth(work: Callable[[int], Callable[[], object]], routes: int) -> Growth:
    """`work(n)` prepares work on n routes, which does not count, and returns the function that does it, which does."""
    work(2)()  # what is made once per process
    one, two = _executed(work(routes)), _executed(work(2 * routes))
    # Few for each route are no growth that could hurt.
    few = {name: 2 * routes * (_FEW_LINES if name.startswith(_LINES) else _FEW_CALLS) for name in two}
    ratios = {name: count / one.get(name, 1) for name, count in two.items() if count > few[name]}
    worst = max(ratios, key=lambda name: ratios[name], default="")
    return Growth(two.total() / one.total(), ratios.get(worst, 0), worst)


def calls_per_route(work: Callable[[int], Callable[[], object]], routes: int) -> float:
    """How many calls each of `routes` further routes adds to the work; `work` as `growth` has it."""
    work(2)()
    one, two = _calls(work(routes)), _calls(work(2 * routes))
    return (two.total() - one.total()) / routes


def _executed(work: Callable[[], object]) -> Counter[str]:
    """How often each function is called, those in C among them, and how many lines of each function run."""
    lines: Counter[str] = Counter()
    return _calls(lambda: lines.update(_lines(work))) + lines


def _calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function is called; a step of a generator counts as a call."""
    profile = cProfile.Profile()
    profile.runcall(work)
    counts: Counter[str] = Counter()
    for entry in profile.getstats():
        code = entry.code
        counts[code if isinstance(code, str) else _name(code)] += entry.callcount
    return counts


def _lines(work: Callable[[], object]) -> Counter[str]:
    """How many lines of each function run; each turn of a loop counts, also where it stands in one line."""
    codes: dict[int, CodeType] = {}  # by id: the hash of a code takes longer than a line
    counts: Counter[int] = Counter()

    def count(frame: FrameType, event: str, _: object) -> Callable[..., object]:
        code = frame.f_code
        codes[id(code)] = code
        counts[id(code)] += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    found: Counter[str] = Counter()
    for key, lines in counts.items():
        found[f"{_LINES}{_name(codes[key])}"] += lines
    return +found


def _name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"


def rich_topology(routes: int, *, changed: bool = False, listeners: int = 1) -> str:
    """As `topology`, with hosts, pools, policies and services that grow as the routes do, and routes and pools that use
    what every engine can."""
    each, policies_used = max(routes // 6, 1), -(-routes // 12)
    ports = ", ".join(f"web{n or ''}: {{ port: {8080 + n} }}" for n in range(listeners))
    lines = ["version: 1", "name: growth", f"listeners: {{ {ports} }}", "error_pages: { 5xx: { body: sorry } }"]
    lines.append("policies:")
    for n in range(policies_used):
        fields = f"timeouts: {{ response: {n + 1}s }}, response_headers: {{ set: {{ x-policy: k{n} }} }}"
        lines.append(f"  k{n}: {{ {fields} }}")
    lines.append("pools:")
    for n in range(policies_used):
        lines.append(f'  s{n}: {{ endpoints: [{{ address: "10.1.{n % 256}.1:{8080 + n // 256}" }}] }}')
    pool_kinds = (
        "sticky: { cookie: LB }",
        "balance: least_connections",
        "balance: { hash: { header: x-user } }",
        "health: { active: { path: /healthz } }",
        "health: { passive: { failures: 5, eject_for: 10s } }",
        "protocol: http2",
    )
    for n in range(each):
        endpoints = ", ".join(f'{{ address: "10.0.{n % 256}.{m}:{8080 + n // 256}" }}' for m in (1, 2))
        lines.append(f"  p{n}: {{ endpoints: [{endpoints}], {pool_kinds[n % len(pool_kinds)]} }}")
    matches = (
        "path: { prefix: %s }",
        "path: { exact: %s }, methods: [GET, POST]",
        'path: { regex: "%s/[0-9]+" }, headers: { x-canary: "true" }',
        'path: { prefix: %s }, query: { beta: "1" }, cookies: { plan: gold }',
    )
    policies = (
        "forward: %s, timeouts: { connect: 1s, response: 5s }, retries: { max: 1, on: [connect_failure, reset] }",
        "forward: %s, rate_limit: { rate: 10/s, burst: 20, key: client_ip }, max_body: 1MiB",
        "forward: %s, request_headers: { set: { x-route: r%%d } }",
        "forward: %s, cors: { origins: [https://shop.example] }, response_headers: { add: { x-a: r%%d } }",
        "forward: %s, compression: { types: [application/json] }, access: { allow: [10.0.0.0/8] }",
        "forward: [{ pool: %s, weight: 9 }, { pool: p0, weight: 1 }], rewrite: { path: /x%%d }",
        "forward: %s, retries: { max: 1, on: [503] }",
        'forward: %s, policies: [k%%k], request_headers: { set: { x-of: "{client_ip} {header.x-%%d} {cookie.c%%d}" } }',
        "forward: %s, auth: { forward: { pool: s%%k, path: /r%%d, response_headers: [x-user-%%d] } }",
        "forward: %s, error_pages: { 404: { body: no-%%d, intercept: true }, 5xx: { body: off-%%d, intercept: true } }",
        "redirect: { path: /new%%d }",
        'respond: { status: 200, body: "r%%d {path}" }',
    )
    lines.append("routes:")
    for n in range(routes):
        path = f"/changed{n}" if changed and n == routes // 2 else f"/s{n}"
        match = matches[n % len(matches)] % path
        policy = policies[n % len(policies)]
        policy = policy % f"p{n % each}" if policy.startswith("forward") else policy.replace("%%", "%")
        policy = policy.replace("%d", str(n)).replace("%k", str(n // len(policies)))
        lines.append(f"  - {{ name: r{n}, hosts: [h{n % each}.example.com], match: [{{ {match} }}], {policy} }}")
    return "\n".join(lines) + "\n"
