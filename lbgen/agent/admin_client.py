"""Fetch paths from an engine's admin port: as text, or as JSON once two rounds agree.

`python -m lbgen.agent.admin_client PORT SECONDS PATH...` prints it, for an engine whose port only its own
network reaches; 0 seconds: the texts that it gives now.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
import urllib.request
from collections.abc import Sequence

SETTLE = 0.2  # an engine that loads its files while it runs has done so when two answers in a row agree


def fetch_text(port: int | None, paths: Sequence[str]) -> dict[str, str] | None:
    """Return the responses by path; None while one of them fails."""
    found: dict[str, str] = {}
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in paths:
        try:
            with direct.open(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                found[path] = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return None
    return found


def fetch_json(port: int | None, paths: Sequence[str]) -> dict[str, object] | None:
    """Return the responses as JSON by path; None when one fails or is not JSON."""
    try:
        return {path: json.loads(text) for path, text in (fetch_text(port, paths) or {}).items()} or None
    except ValueError:
        return None


def main() -> int:
    """Print the responses; exit code 3 when the port does not respond in time."""
    port, seconds, *paths = sys.argv[1:]
    if not float(seconds):
        said = fetch_text(int(port), paths)
        sys.stdout.write(json.dumps(said))
        return 0 if said is not None else 3
    end = time.monotonic() + float(seconds)
    before: dict[str, object] | None = None
    while time.monotonic() < end:
        now = fetch_json(int(port), paths)
        if now is not None and now == before:
            sys.stdout.write(json.dumps(now))
            return 0
        before = now
        time.sleep(SETTLE if now is not None else 0.05)
    return 3


if __name__ == "__main__":
    raise SystemExit(main())
