"""Clients of a drill, and the table of what they lost: a row for each drill, a column for each topology and engine."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.runtime.local import network
from tests.support.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLES = Path(__file__).parents[2] / "build/drills"
REFUSED = {  # text that no engine takes
    "haproxy": {"global": "no-such-word here"},
    "nginx": {"http": "no_such_word here;"},
    "envoy": {"bootstrap": "no_such_field: 1"},
}
HOST = "shop.example"
LEAST = 100  # answers of a drill that says anything
_FAILED = re.compile(r'"status": ?"?5\d\d')  # in the lines of any engine
_LOG = logging.getLogger(__name__)


@dataclass
class Counts:
    """What clients got: answers, and in words what they lost."""

    good: int = 0
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        why = ", ".join(f"{number} {word}" for word, number in Counter(self.lost).most_common(5))
        return f"{len(self.lost)}/{self.good + len(self.lost):,}{f' ({why})' if why else ''}"


@contextmanager
def clients(*places: tuple[str, int], inside: int = 0) -> Iterator[Counts]:
    """Two clients on kept connections and two on new ones, at the places in turn, for as long as the block lasts; in
    the network of the process `inside`, where one is given."""
    at = [(places[n % len(places)], n in (0, 3)) for n in range(4)]
    every = [Traffic(port, host=host, authority=HOST, fresh=fresh) for (host, port), fresh in at]
    runs = [(lambda x=each: network.run_inside(inside, x.client)) if inside else each.client for each in every]
    threads = [threading.Thread(target=run) for run in runs]
    counts, begun = Counts(), time.monotonic()
    for each in threads:
        each.start()
    try:
        time.sleep(1)
        yield counts
        time.sleep(1)
    finally:
        for each in every:
            each.stop()
        for thread in threads:
            thread.join()
        counts.good = sum(each.good for each in every)
        counts.lost = [word for each in every for word in each.lost]
        counts.seconds = time.monotonic() - begun


def log_failures(source: str, lines: Iterable[str]) -> None:
    """Log the first lines of access logs that tell of a status of 5xx."""
    for line in islice(filter(_FAILED.search, lines), 8):
        _LOG.info("%s: %s", source, line)


class DrillTable:
    """The table of a run, in a Markdown file that is written again with each cell."""

    def __init__(self, name: str) -> None:
        self._file = TABLES / f"{name}.md"
        self._cells: dict[str, dict[str, str]] = {}

    def add(self, row: str, column: str, cell: object) -> None:
        _LOG.info("%s: %s: %s", column, row, cell)
        self._cells.setdefault(row, {})[column] = str(cell)
        columns = list(dict.fromkeys(name for cells in self._cells.values() for name in cells))
        lines = [["drill", *columns], ["---"] * (len(columns) + 1)]
        lines += [[name, *(cells.get(x, "") for x in columns)] for name, cells in self._cells.items()]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines), encoding="utf-8")

    def expect_none_lost(self, row: str, column: str, counts: Counts) -> None:
        self.add(row, column, counts)
        assert counts.good > LEAST
        assert not counts.lost, f"{column}: {row}: {counts}"
