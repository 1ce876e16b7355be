"""A topology of as many routes as asked, and the count of Python calls that a piece of work makes.

Calls are counted instead of seconds: they are the same on every machine and beside every other process.
"""

from __future__ import annotations

import cProfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 2.2  # times as much for twice the routes
_MOST_OF_ONE = 2.5  # the same of a single function, of which some sort


def topology(routes: int, *, hosts: int = 100, pools: int = 50, changed: bool = False, listeners: int = 1) -> str:
    """`routes` routes in `hosts` hosts, each with a prefix of its own, and `pools` pools of two endpoints with active
    checks; `changed` gives one route another prefix. All routes are on each of the `listeners`."""
    ports = ", ".join(f"web{n or ''}: {{ port: {8080 + n} }}" for n in range(listeners))
    lines = ["version: 1", "name: growth", f"listeners: {{ {ports} }}", "pools:"]
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
    """How many times as many calls twice the routes take: all, and of the function that grows most."""

    all: float
    worst: float
    function: str

    @property
    def linear(self) -> bool:
        return self.all <= MOST and self.worst <= _MOST_OF_ONE


def growth(work: Callable[[int], Callable[[], object]], routes: int) -> Growth:
    """`work(n)` prepares work on n routes, which does not count, and returns the function that does it, which does."""
    work(2)()  # what is made once per process
    one, two = _calls(work(routes)), _calls(work(2 * routes))
    # Fewer calls than routes are no growth that could hurt.
    ratios = {name: count / one.get(name, 1) for name, count in two.items() if count > 2 * routes}
    worst = max(ratios, key=lambda name: ratios[name], default="")
    return Growth(two.total() / one.total(), ratios.get(worst, 0), worst)


def _calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function is called, those in C among them; a step of a generator counts as a call."""
    profile = cProfile.Profile()
    profile.runcall(work)
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        code = entry.code
        name = code if isinstance(code, str) else f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"
        found[name] += entry.callcount
    return found
