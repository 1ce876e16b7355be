"""`lbgen explain --cost`: the table, the advice, the record."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from lbgen.cli.main import group

SHOP = Path(__file__).parents[3] / "examples" / "shop" / "topology.yaml"


def explain(*options: str) -> str:
    done = CliRunner().invoke(group, ["explain", str(SHOP), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_table_says_what_costs_and_what_is_cheaper() -> None:
    text = explain("--cost", "-e", "nginx", "-e", "haproxy")
    assert "forward, nothing else" in text
    assert "access_log" in text
    assert "cheaper: access_log: none" in text
    assert "rounds of" in text


def test_an_engine_without_figures_is_named() -> None:
    assert "nftables: nothing was measured" in explain("--cost")


def test_the_record_has_figures_and_fields() -> None:
    record = json.loads(explain("--cost", "-e", "nginx", "--json"))["nginx"]
    assert record["forward_us"] > 0
    assert record["measured"].keys() == {"version", "date", "method"}
    log = next(each for each in record["features"] if each["feature"] == "access_log")
    assert log.keys() == {"feature", "us", "low", "high", "noise", "fields", "cheaper"}


def test_the_options_exclude_each_other() -> None:
    done = CliRunner().invoke(group, ["explain", str(SHOP), "--cost", "--field", "routes[0]"])
    assert done.exit_code == 2
    assert "--cost" in done.output
