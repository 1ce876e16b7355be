"""`python -m lbgen.conformance`: run the cases on the engines of this host and print the matrix.

Exit 4 on a failure, 2 when no case ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from lbgen.conformance import report
from lbgen.conformance.case import case_files
from lbgen.conformance.engine_under_test import EngineUnderTest, engines_in_images, engines_on_host
from lbgen.conformance.runner import CaseState, Result, run
from lbgen.diagnostics import LbgenError
from lbgen.runtime.docker.single_engine import share_netns


@click.command()
@click.option("-e", "--engine", "engines", multiple=True, metavar="ENGINE[@VERSION]", help="Only these engines.")
@click.option(
    "--runtime", type=click.Choice(["local", "docker"]), default="local", help="Processes, or containers (root)."
)
@click.option("-k", "clause", default="", help="Only cases whose clause (or file) contains this.")
@click.option("--by", type=click.Choice(["group", "clause"]), default="group", help="Rows of the matrix.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all results as JSON.")
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Run nothing: read the JSON files of a run of the tests (LBGEN_RESULTS=FOLDER make test).",
)
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), help="Write the matrix as Markdown.")
def main(
    engines: tuple[str, ...],
    runtime: str,
    clause: str,
    by: str,
    json_file: Path | None,
    folder: Path | None,
    markdown_file: Path | None,
) -> None:
    """Run the conformance cases against real engines and compare with the oracle."""
    console = Console()

    def done(results: tuple[Result, ...]) -> None:
        if results:
            _, text = report.cell(results)
            console.print(f"{results[0].subject:18} {results[0].file:20} {text}", highlight=False)
        shown = ""
        for result in results:
            if result.state is CaseState.FAIL and (
                result.again or result.detail != shown
            ):  # one start that failed: once
                shown = result.detail
                console.print(f"  FAIL {result.case}: {result.detail}", style="red", highlight=False, markup=False)
                console.print(f"       {result.again}", style="dim", highlight=False, markup=False)

    try:
        if folder is not None:
            results = report.from_json(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json")))
        else:
            with ExitStack() as stack:
                over = (
                    engines_in_images(engines, stack.enter_context(share_netns()))
                    if runtime == "docker"
                    else engines_on_host(engines)
                )
                results = _run(over, clause, done)
    except LbgenError as error:
        click.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from error
    console.print(*report.tables(results, console, by=by), sep="\n\n")
    if json_file is not None:
        json_file.write_text(report.as_json(results), encoding="utf-8")
    if markdown_file is not None:
        report.insert(markdown_file, report.markdown(results), "conformance")
    if not results:
        click.echo(f"no case was run: no clause or file contains {clause!r}" if clause else "no case was run", err=True)
        raise SystemExit(2)
    counts = Counter(r.state for r in results)
    console.print(", ".join(f"{counts[s]} {s}" for s in CaseState))
    raise SystemExit(4 if counts[CaseState.FAIL] else 0)


def _run(
    over: tuple[EngineUnderTest, ...], clause: str, done: Callable[[tuple[Result, ...]], None]
) -> tuple[Result, ...]:
    files = case_files()
    results = run(files, over, wanted=lambda case: clause in case.clause, done=done)
    if clause and not results:
        named = [file for file in files if clause in file.name]
        results = run(named, over, done=done)
    return results


if __name__ == "__main__":
    main()
