"""`python -m tests.bench`: lbgen's configurations against hand-tuned ones. Exit 0, or 4 when a goal is missed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.bench import load
from tests.bench.cases import CASES, Bench, run
from tests.bench.proxies import ENGINES, endpoint_binary, find_builds, isolate

if TYPE_CHECKING:
    from tests.bench.goals import Result

MISSED = 4  # exit code
_WIDTH = 120


def main() -> int:
    """Measure, print, judge."""
    asked = _arguments()
    isolate()
    paths: dict[str, list[str]] = {}
    for word in asked.binary:
        name, _, path = word.partition("=")
        paths.setdefault(name, []).append(path)
    builds = find_builds(asked.engines or (tuple(paths) or ENGINES), paths)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="lbgen-bench-") as name,
        Progress(*columns, console=Console(stderr=True)) as progress,
    ):
        folder = Path(name)
        folder.chmod(0o755)  # workers of nginx are another user
        bar = progress.add_task("", total=len(asked.cases) * len(builds))
        bench = Bench(folder, asked.rounds, asked.seconds, asked.lock)
        bench.report = lambda text: progress.update(bar, description=text)
        with load.endpoint(endpoint_binary(), folder / "endpoint"):
            for build in builds:
                for case in asked.cases:
                    progress.update(bar, description=f"{case}, {build.label}")
                    found = run(case, build, bench)
                    for each in found:
                        progress.console.print(_line(each), markup=False, highlight=False, soft_wrap=True)
                    results += found
                    progress.advance(bar)
    _print(results)
    if asked.json:
        record = {"rounds": asked.rounds, "seconds": asked.seconds, "results": [each.as_dict() for each in results]}
        asked.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if all(each.passed for each in results) else MISSED


def _print(results: list[Result]) -> None:
    table = Table("case", "engine", "figure", "middle half", "goal", "", "")
    for each in sorted(results, key=lambda result: result.case):
        figure = "-" if each.value is None else _number(each.value, each.unit)
        spread = "" if each.spread is None else f"{each.spread[0]:.2f}-{each.spread[1]:.2f}"
        verdict = "[green]reached[/]" if each.passed else "[red]missed[/]"
        goal = _number(each.goal, each.unit)
        table.add_row(each.case, each.subject, figure, spread, goal, verdict, each.detail)
    console = Console()
    console.width = max(console.width, _WIDTH)  # in a pipe it would be 80
    console.print(table)
    for each in results:
        if each.missing:
            console.print(_line(each), markup=False, highlight=False)


def _line(result: Result) -> str:
    figure = result.missing or f"{_number(result.value or 0, result.unit)} {result.detail}".rstrip()
    return f"{result.case}, {result.subject}: {figure}"


def _number(value: float, unit: str) -> str:
    return f"{value:.2f}x" if unit == "x" else f"{value:,.0f} {unit}"


def _words(known: tuple[str, ...]) -> object:
    def read(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return words

    return read


def _arguments() -> argparse.Namespace:
    about = argparse.ArgumentParser("python -m tests.bench", description=(__doc__ or "").partition(": ")[2])
    about.add_argument("--engines", type=_words(ENGINES), default=(), metavar="A,B", help="default: all four")
    about.add_argument("--cases", type=_words(tuple(CASES)), default=tuple(CASES), metavar="A,B", help=", ".join(CASES))
    about.add_argument("--rounds", type=int, default=5, help="of each side, in turn (default: %(default)s)")
    about.add_argument(
        "--seconds", type=int, default=2, help="of each side in a round, one at a time (default: %(default)s)"
    )
    about.add_argument(
        "--binary", action="append", default=[], metavar="ENGINE=PATH", help="this build only; may be repeated"
    )
    about.add_argument("--lock", type=Path, metavar="FILE", help="take turns with other benches that lock it")
    about.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return about.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
