"""What `up` and `reload` show while they work."""

from __future__ import annotations

import io

from rich.console import Console

from lbgen.api import Progress, Step
from lbgen.cli.up import Steps, steps


def test_a_pipe_gets_a_line_each_second_of_what_goes_on() -> None:
    out, now = io.StringIO(), 0.0
    with Console(file=out, width=200).status("") as status:
        tell = Steps(status, "reading the topology", lambda: now)

        def passes(quarters: int) -> None:
            nonlocal now
            for _ in range(quarters):
                now += 0.25
                tell.refresh()

        passes(3)
        tell(Progress(Step.CHECKING, "nginx"))
        passes(8)
        tell(Progress(Step.CHECKED, "nginx"))
        tell(Progress(Step.LOADING, "nginx"))
        passes(3)
        for done in range(1, 2001):
            tell(Progress(Step.ANSWERED, "nginx", f"r{done}", done, 2000))
            passes(5 if done == 412 else 0)
        tell(Progress(Step.RELOADED, "nginx"))
    assert out.getvalue().splitlines() == [
        "nginx: checks the change",
        "nginx: checks the change, 1 s",
        "nginx: the change is sound",
        "nginx: routes answer 412/2000",
        "nginx: routes answer 412/2000, 1 s",
        "nginx: route answered 2000/2000 (r2000)",
        "nginx: loaded the change",
    ]


def test_steps_that_are_done_are_lines_unless_the_console_is_quiet() -> None:
    for quiet, lines in ((False, "envoy: started (Envoy 1.40)\n"), (True, "")):
        out = io.StringIO()
        with steps(Console(file=out, width=200, quiet=quiet), "reading the topology") as tell:
            tell(Progress(Step.STARTED, "envoy", "Envoy 1.40"))
        assert out.getvalue() == lines
