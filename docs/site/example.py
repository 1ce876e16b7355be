"""One topology and what each engine gets for its route, for README.md."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lbgen

WIDTH = 118
EXAMPLE = """\
version: 1
name: hello
listeners:
  web: { port: 8080 }
pools:
  app: { endpoints: [{ address: "10.0.0.1:8080", weight: 3 }, { address: "10.0.0.2:8080" }] }
routes:
  - { name: api, match: [{ path: { prefix: /api } }], forward: app, rewrite: { prefix: /v1 } }
"""
# The lines shown of each engine's files: those behind this field.
SHOWN = "routes[0]"
FILES = {
    "nginx": "nginx.conf",
    "haproxy": "haproxy.cfg",
    "envoy": "envoy.yaml",
    "traefik": None,  # the dynamic file
}
MOST = 14


def example() -> str:
    """Return the topology, and the lines of each engine's files that come from its route."""
    parts = [f"```yaml\n{EXAMPLE}```"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hello.yaml"
        path.write_text(EXAMPLE, encoding="utf-8")
        plan = lbgen.plan(lbgen.load(path))
        parts.append("What each engine gets for the route `api` (the rest of each file is as explicit):")
        parts += [_excerpt(name, file, lbgen.render(plan, engine=name)) for name, file in FILES.items()]
        try:
            lbgen.render(plan, engine="nftables")
        except lbgen.LbgenError as stop:
            first = next(d for d in stop.diagnostics if d.field.startswith("listeners"))
            parts.append(f"`nftables`: {first.message} ({first.code}).")
    return "\n\n".join(parts)


def _excerpt(name: str, file: str | None, rendered: lbgen.Rendered) -> str:
    for each in rendered.files:
        if file is not None and each.name != file:
            continue
        lines = [
            text
            for text, origin in zip(each.text.splitlines(), each.origins, strict=False)
            if origin == SHOWN or origin.startswith(SHOWN + ".")
        ]
        if not lines:
            continue
        indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        once = [line for before, line in zip(["", *lines], lines, strict=False) if line != before]
        shown = [line[indent:][:WIDTH] for line in once[:MOST]]
        more = ["..."] if len(once) > MOST else []
        return f"`{name}/{each.name}`\n\n```\n" + "\n".join([*shown, *more]) + "\n```"
    raise AssertionError(f"{name} has no line that comes from {SHOWN}")
