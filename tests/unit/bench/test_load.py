"""How a generator runs: watched, with its output, ended by an interrupt."""

from __future__ import annotations

import sys

import pytest

from lbgen.bench.load import LoadShape, run_generator
from lbgen.diagnostics import EngineError


def test_a_shape_says_how_requests_are_sent() -> None:
    assert LoadShape(50).title == "50 connections, closed loop"
    assert LoadShape(50, 200).title == "50 connections, 200 requests/s at a constant rate"
    assert LoadShape(5, keep_alive=False).title.endswith("closed loop, a new connection for each request")


def test_a_failing_generator_is_an_error_with_its_output() -> None:
    with pytest.raises(EngineError, match="no such thing"):
        run_generator([sys.executable, "-c", "import sys; sys.exit('no such thing')"], 1, lambda: None)


def test_the_engine_is_looked_at_while_it_runs() -> None:
    looks: list[int] = []
    output = run_generator(
        [sys.executable, "-c", "import time; time.sleep(0.6); print('done')"], 1, lambda: looks.append(1)
    )
    assert output == "done\n"
    assert len(looks) >= 2


def test_an_interrupt_ends_the_generator(tmp_path) -> None:
    written = tmp_path / "ended"

    def interrupt() -> None:
        raise KeyboardInterrupt

    code = f"import time; time.sleep(2); open({str(written)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt):
        run_generator([sys.executable, "-c", code], 1, interrupt)
    assert not written.exists()
