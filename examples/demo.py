"""Bring a topology up on every L7 engine at once, send the same requests to each, print the answers side by side; in
containers when a docker daemon answers.

python examples/demo.py [TOPOLOGY]      (make demo)
"""

from __future__ import annotations

import http.client
import json
import sys
import time

from rich.console import Console
from rich.table import Table

import lbgen
from lbgen.api import Progress, Step

L7_ENGINES = ("nginx", "haproxy", "envoy", "traefik")
REQUESTS = [
    ("GET", "/", {"Host": "shop.example"}),
    ("GET", "/api/cart", {"Host": "shop.example", "x-canary": "true"}),
    ("GET", "/apix", {"Host": "shop.example"}),
    ("GET", "/shop/orders/17?full=1", {"Host": "shop.example"}),
    ("GET", "/assets/logo.svg", {"Host": "static.shop.example"}),
    ("GET", "/catalogue/hats?sort=price", {"Host": "shop.example"}),
    ("GET", "/cart", {"Host": "www.shop.example"}),
    ("GET", "/healthz", {"Host": "anything.example"}),
    ("GET", "/nothing", {"Host": "nowhere.example"}),
]
# How an engine refuses these is its own habit, as is resolving a path before rules look at it.
HOSTILE = [
    ("GET", "/a//b", {"Host": "shop.example"}),
    ("GET", "/a/%2e%2e/etc", {"Host": "shop.example"}),
    ("TRACE", "/", {"Host": "shop.example"}),
]


def ask(host: str, port: int, method: str, target: str, headers: dict[str, str]) -> str:
    """Status, and what tells who answered: the endpoint's pool and target, a Location, or the body of the topology.

    The text of an engine's own refusal is its habit, and left out.
    """
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read().decode()
    finally:
        connection.close()
    location = answer.headers.get("Location")
    if location:
        return f"{answer.status} -> {location.replace(f':{port}/', ':PORT/')}"
    if answer.headers.get_content_type() == "application/json":
        seen = json.loads(body)
        return f"{answer.status} {seen['pool']} {seen['target']}"
    return f"{answer.status} {body.strip()}" if answer.status < 400 else str(answer.status)


def is_safe(answer: str) -> bool:
    """Whether a request was refused, or reached an endpoint with a path that can be read in one way only."""
    status, *reached = answer.split()
    return status.startswith("4") or (bool(reached) and not any(x in reached[-1] for x in ("//", "..", "%2e")))


def where(stack: lbgen.Stack, engine: str) -> tuple[str, int]:
    """Host and port of the first listener on `engine`."""
    address = stack.address("web", engine)
    return address.host, address.port


def main() -> int:
    """0 when every engine answered alike, and hostile requests safely; 4 when not."""
    path = sys.argv[1] if len(sys.argv) > 1 else "examples/shop/topology.yaml"
    console = Console()
    started = time.monotonic()

    def told(step: Progress) -> None:
        if step.step is Step.BUILDING:  # once: later runs find the images
            console.print(f"  after {time.monotonic() - started:.1f} s: {step.step}: {step.detail}", style="dim")

    with console.status("starting nginx, HAProxy, Envoy and Traefik"):
        stack = lbgen.up(lbgen.load(path), L7_ENGINES, progress=told)
    with stack:
        how = "in containers" if stack.state.runtime == "docker" else "as local processes"
        took = time.monotonic() - started
        console.print(f"[bold]{path}[/] is up on {len(L7_ENGINES)} engines {how} after {took:.1f} s")
        for name in L7_ENGINES:
            console.print(f"  {name:8} {stack.url('web', engine=name)}", highlight=False)
        table = Table("request", "answer", "")
        counts = {"alike": 0, "safe": 0}
        for method, target, headers in (*REQUESTS, *HOSTILE):
            extra = "".join(f" {n}: {v}" for n, v in headers.items() if n != "Host")
            answers = [ask(*where(stack, name), method, target, headers) for name in L7_ENGINES]
            alike, promise = len(set(answers)) == 1, "alike" if (method, target, headers) in REQUESTS else "safe"
            kept = alike if promise == "alike" else all(map(is_safe, answers))
            counts[promise] += kept
            each = "\n".join(f"{name}: {answer}" for name, answer in zip(L7_ENGINES, answers, strict=True))
            verdict = f"[green]{promise}[/]" if kept else f"[red]not {promise}[/]"
            table.add_row(f"{method} {headers['Host']}{target}{extra}", answers[0] if alike else each, verdict)
        console.print(table)
    console.print(
        f"{counts['alike']} of {len(REQUESTS)} requests answered alike, {counts['safe']} of {len(HOSTILE)} hostile "
        "ones refused or resolved; everything is stopped again"
    )
    return 0 if sum(counts.values()) == len(REQUESTS) + len(HOSTILE) else 4


if __name__ == "__main__":
    sys.exit(main())
