"""An admin port that speaks JSON -> what it says to each path, once two rounds agree.

`python -m lbgen.runtime.answers PORT SECONDS PATH...` prints it, for an engine whose port only its own network reaches.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTLE = 0.2  # an engine that loads its files while it runs has done so when two answers in a row agree


def answers(port: int | None, paths: Sequence[str]) -> dict[str, object] | None:
    """What it says now; None while it does not answer one of them."""
    found: dict[str, object] = {}
    for path in paths:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                found[path] = json.load(answer)
        except (OSError, urllib.error.URLError, ValueError):
            return None
    return found


def main() -> int:
    """Exit 3 when it does not answer in time."""
    port, seconds, *paths = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    before: dict[str, object] | None = None
    while time.monotonic() < end:
        now = answers(int(port), paths)
        if now is not None and now == before:
            sys.stdout.write(json.dumps(now))
            return 0
        before = now
        time.sleep(SETTLE if now is not None else 0.05)
    return 3


if __name__ == "__main__":
    raise SystemExit(main())
