"""Keep the generated blocks of README.md true: `python tests/readme.py --update`; the test calls `stale()`.

The matrix block is written by `python -m lbgen.conformance --markdown README.md` (make matrix).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import lbgen

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
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


def blocks() -> dict[str, str]:
    """The text of each generated block."""
    return {"example": _example(), "help": _help()}


def _help() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "100", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        cwd=ROOT,
    )
    return f"```\n{done.stdout.rstrip()}\n```"


def _example() -> str:
    parts = [f"```yaml\n{EXAMPLE}```"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hello.yaml"
        path.write_text(EXAMPLE, encoding="utf-8")
        plan = lbgen.plan(lbgen.load(path))
        parts.append("What each engine gets for the route `api` (the rest of each file is as explicit):")
        for name, file in FILES.items():
            rendered = lbgen.render(plan, engine=name)
            parts.append(_excerpt(name, file, rendered))
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
        indent = min(len(x) - len(x.lstrip()) for x in lines if x.strip())
        cut = [x[indent:][:WIDTH] for x in lines[:MOST]]
        more = ["..."] if len(lines) > MOST else []
        return f"`{name}/{each.name}`\n\n```\n" + "\n".join([*cut, *more]) + "\n```"
    raise AssertionError(f"{name} has no line that comes from {SHOWN}")


def _block(name: str) -> re.Pattern[str]:
    return re.compile(f"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)


def stale() -> list[str]:
    """Names of blocks whose text in README.md is not what it should be."""
    text = README.read_text(encoding="utf-8")
    old = {}
    for name in blocks():
        found = _block(name).search(text)
        old[name] = found[0] if found else ""
    return [n for n, new in blocks().items() if old[n] != f"<!-- begin {n} -->\n{new}\n<!-- end {n} -->"]


def update() -> None:
    """Write the blocks into README.md."""
    text = README.read_text(encoding="utf-8")
    for name, new in blocks().items():
        text = _block(name).sub(lambda m, new=new: f"{m[1]}{new}\n{m[2]}", text)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    sys.exit(f"stale: {', '.join(stale())}" if stale() else 0)
