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
    ("GET", "/a//b", {"Host": "shop.example"}),
    ("GET", "/a/%2e%2e/etc", {"Host": "shop.example"}),
    ("TRACE", "/", {"Host": "shop.example"}),
    ("GET", "/nothing", {"Host": "nowhere.example"}),
]


def ask(host: str, port: int, method: str, target: str, headers: dict[str, str]) -> str:
    """Status, and what tells who answered: the endpoint's pool and target, a Location, or the body."""
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
    return f"{answer.status} {body.strip()}"


def where(stack: lbgen.Stack, engine: str) -> tuple[str, int]:
    """Host and port of the first listener on `engine`."""
    address = stack.address("web", engine)
    return address.host, address.port


def main() -> int:
    """0 when every engine answered alike, 4 when not."""
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
        table = Table("request", "answer", "alike")
        differ = 0
        for method, target, headers in REQUESTS:
            extra = "".join(f" {n}: {v}" for n, v in headers.items() if n != "Host")
            answers = [ask(*where(stack, name), method, target, headers) for name in L7_ENGINES]
            alike = len(set(answers)) == 1
            differ += not alike
            each = "\n".join(f"{name}: {answer}" for name, answer in zip(L7_ENGINES, answers, strict=True))
            verdict = f"[green]all {len(answers)}[/]" if alike else "[red]NO[/]"
            table.add_row(f"{method} {headers['Host']}{target}{extra}", answers[0] if alike else each, verdict)
        console.print(table)
    console.print(f"{len(REQUESTS) - differ} of {len(REQUESTS)} requests answered alike; everything is stopped again")
    return 4 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
