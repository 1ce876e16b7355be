"""Options of `lbgen bench` that need no engine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from lbgen.bench.cost import WHOLE, CostReport, costs_of
from lbgen.bench.load import Load
from lbgen.bench.report import MeasuredEngine, Sample
from lbgen.cli import bench_output
from lbgen.cli.main import group
from lbgen.cli.output import console
from tests.unit.bench.test_compare import record
from tests.unit.bench.test_report import TARGET
from tests.unit.bench.test_tables import measured


def run(*words: str):
    return CliRunner().invoke(group, ["bench", *words])


def test_a_change_is_printed_and_exits_4(tmp_path: Path) -> None:
    files = []
    for name, made in (("a", record()), ("b", record(rps=500.0))):
        files.append(str(tmp_path / name))
        Path(files[-1]).write_bytes(msgspec.json.encode(made))
    changed, same = run("--compare", *files), run("--compare", files[0], files[0])
    assert changed.exit_code == 4
    assert "nginx, 50 connections, closed loop: requests/s worse: 1000 to 500, x0.50" in changed.stdout
    assert (same.exit_code, same.stdout) == (0, "no change beyond the noise in 4 rows\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--compare", "a", "b", "shop.yaml"), "leave TOPOLOGY out"),
        (("shop.yaml", "--cost", "--rates", "5"), "--cost chooses connections and rate itself"),
        (("shop.yaml", "--faults", "reset", "--cost"), "--faults has times of its own"),
        (("shop.yaml", "--faults", "reset", "--rates", "5,6"), "--faults has times of its own"),
        (("shop.yaml", "--faults", "reset,fire"), "'fire' is no fault"),
        (("shop.yaml", "--url", "http://a/", "--listener", "web"), "exclude each other"),
        (("shop.yaml", "--rates", "5,x"), "is not a list such as"),
        (("shop.yaml", "--delay", "pools.app.endpoints[0]=5"), "is not an endpoint and a time"),
        (("shop.yaml", "-o", "/no/such/folder/a.json"), "there is no folder '/no/such/folder'"),
        ((), "Missing argument 'TOPOLOGY'"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], message: str) -> None:
    found = run(*words)
    assert found.exit_code == 2
    assert message in found.stderr


def test_reports_are_written(tmp_path: Path) -> None:
    page, text, data = (str(tmp_path / name) for name in ("a.html", "a.md", "a.json"))
    bench_output.write_reports(measured(), page, text)
    bench_output.write_json(data, measured())
    assert Path(page).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert Path(text).read_text(encoding="utf-8").startswith("# shop")
    assert json.loads(Path(data).read_text(encoding="utf-8"))["cpu"] == "a processor"


def test_what_drowns_in_the_noise_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def sample(micros: float) -> Sample:
        return Sample(Load(1000, 1000.0, 1.0, 2.0, 0, 0), micros / 1000, 1.0)

    others = {"routes[all].retries": sample(40.0), "access_log": sample(50.0)}
    pairs = {name: [(sample(50.0), less)] * 3 for name, less in others.items()}
    engine = costs_of(MeasuredEngine("nginx", "1.31.3", 9), 100, pairs, [{WHOLE: sample(50.0), **others}] * 3, {})
    bench_output.print_report(console(), CostReport("shop", 2, TARGET.route, TARGET.target, 1, 3, (engine,), ()))
    lines = capsys.readouterr().out.splitlines()
    (priced,) = (line for line in lines if "routes[all].retries" in line)
    assert "+10.0" in priced
    (drowned,) = (line for line in lines if "access_log" in line)
    assert "not measurable here" in drowned
