"""`python -m tests.clients [pytest arguments]`: run the clients, then print what works as a table in Markdown.

It goes through every version of every engine here; `make test` takes one version of each. A client that is not here is
a counted skip. Debian's packages: curl chromium default-jdk-headless nodejs npm golang bind9-dnsutils postgresql redis
mariadb-server; grpcio, aiohttp and the others of Python come with the extra `dev`, grpc-go and ws by Go and npm.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.clients import habits

CLIENTS = {
    "grpcio": "grpcio",
    "grpcgo": "grpc-go",
    "curl": "curl",
    "chromium": "Chromium",
    "go": "Go net/http",
    "java": "Java HttpClient",
    "node": "Node fetch, http2, ws",
    "requests": "Python requests",
    "httpx": "Python httpx",
    "aiohttp": "Python aiohttp",
    "websockets": "Python websockets",
    "h2": "HTTP/2 by hand",
    "psql": "psql",
    "pgbench": "pgbench",
    "redis": "redis-cli",
    "mysql": "mariadb",
    "dig": "dig",
    "check": "no --accept needed",
}
_TEST = re.compile(r"::test_([a-z0-9]+)\w*\[(.*?)((?:envoy|haproxy|nginx|traefik|nftables)(?: [0-9.]+)?)(.*)\]$")


class Table:
    """A plugin of pytest that counts outcomes by client and engine."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.reasons: dict[str, dict[str, list[str]]] = {"failed": defaultdict(list), "skipped": defaultdict(list)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = _TEST.search(report.nodeid)
        if found is None or (report.when != "call" and report.passed):
            return
        client, engine = found[1], found[3]
        self.counts[client, engine][report.outcome] += 1
        if report.outcome in self.reasons:
            name = report.nodeid.rpartition("::")[2].replace(engine, "").replace("[-", "[").replace("-]", "]")
            reason = _reason(report)
            what = reason if report.skipped else f"{name.replace('[]', '')}: {reason}"
            self.reasons[report.outcome][what].append(engine)

    def markdown(self) -> str:
        engines = sorted({engine for _, engine in self.counts})
        lines = [f"| client | {' | '.join(engines)} |", f"|---|{'---|' * len(engines)}"]
        for client in sorted({client for client, _ in self.counts}, key=[*CLIENTS].index):
            cells = (self._cell(self.counts[client, engine]) for engine in engines)
            lines.append(f"| {CLIENTS[client]} | {' | '.join(cells)} |")
        if self.reasons["failed"]:
            lines += ["", "Failures:", ""]
            lines += [f"- {what} ({', '.join(who)})" for what, who in sorted(self.reasons["failed"].items())]
        if habits.SHOWN:
            lines += ["", "Expected differences:", ""]
            lines += [f"- {engine}, {number}: {says}" for (engine, says), number in sorted(habits.SHOWN.items())]
        if self.reasons["skipped"]:
            lines += ["", "Skipped:", ""]
            lines += [f"- {len(who)}: {why}" for why, who in sorted(self.reasons["skipped"].items())]
        return "\n".join(lines)

    @staticmethod
    def _cell(counts: Counter[str]) -> str:
        words = {"passed": "pass", "failed": "FAIL", "skipped": "skip"}
        return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key]) or "-"


def _reason(report: pytest.TestReport) -> str:
    """The first line that says why."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return re.sub(r"\b\d{5}\b", "PORT", next(iter(text.splitlines()), ""))[:160].replace("|", "\\|")


def main() -> int:
    table = Table()
    quiet = ("-q", "--tb=no", "-p", "no:cacheprovider", "--no-summary")
    code = pytest.main([str(Path(__file__).parent), "--drills", *quiet, *sys.argv[1:]], plugins=[table])
    sys.stdout.write(f"\n{table.markdown()}\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
