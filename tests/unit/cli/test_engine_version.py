"""`--engine-version` sets `engines.<name>.version` on every command that takes a topology."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lbgen.cli.main import group

SHOP = str(Path(__file__).parents[3] / "examples" / "shop" / "topology.yaml")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, arguments)
    return result.exit_code, result.output


def test_render_is_for_that_version() -> None:
    code, text = run("render", SHOP, "-e", "haproxy", "--engine-version", "haproxy=2.6", "--json", "--accept", "all")
    assert code == 0
    assert json.loads(text)["haproxy"]["version"] == "2.6"


def test_a_version_that_is_too_old_is_refused_by_name() -> None:
    code, text = run("check", SHOP, "--no-engines", "--engine-version", "nginx=1.18")
    assert code == 1
    assert "nginx 1.18 is not supported; one of: 1.31" in text


def test_an_unknown_newer_one_is_a_warning() -> None:
    code, text = run("check", SHOP, "--no-engines", "--engine-version", "nginx=1.99")
    assert code == 0
    assert "warning LB307 engines.nginx.version" in text


@pytest.mark.parametrize("value", ["haproxy", "=3.0", "apache=2.4", "haproxy="])
def test_other_words_are_refused(value: str) -> None:
    code, text = run("check", SHOP, "--engine-version", value)
    assert code == 2
    assert "such as haproxy=3.0" in text


def test_explain_names_the_field_that_rules_a_version_out() -> None:
    code, text = run("explain", SHOP, "--set", "pools.assets.protocol=http2", "--versions", "-e", "traefik", "--json")
    assert code == 0
    versions = json.loads(text)["traefik"]
    assert "pools.assets.protocol" not in [each["field"] for each in versions["3.7"]]
    assert "pools.assets.protocol" in [each["field"] for each in versions["3.6"]]


def test_the_table_has_a_row_for_each_version() -> None:
    code, text = run("explain", SHOP, "--versions", "-e", "haproxy")
    assert code == 0
    assert all(version in text for version in ("2.6", "2.8"))


@pytest.mark.parametrize("value", ["haproxy", "haproxy=x", "apache=2.4,2.6", "haproxy=2.8,"])
def test_versions_to_verify_are_an_engine_and_numbers(value: str) -> None:
    code, text = run("verify", SHOP, "--against-version", value)
    assert code == 2
    assert "such as haproxy=3.0,3.2" in text


def test_rendered_files_are_of_one_version() -> None:
    code, text = run("verify", SHOP, "--against-version", "haproxy=2.6,2.8", "--rendered", ".")
    assert code == 2
    assert "--rendered is of one version" in text
