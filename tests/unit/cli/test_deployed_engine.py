"""An engine that lbgen does not run: rendered, checked and explained where it is asked for, and never started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.engines.api import Deployed, engine, engines, local_engines
from lbgen.runtime.common import executables
from lbgen.runtime.stack_request import chosen_engines

SHOP = str(Path(__file__).parents[3] / "examples" / "shop" / "topology.yaml")
ARN = "arn:aws:acm:eu-west-1:111122223333:certificate/1"
LINT = Path(sys.executable).with_name("cfn-lint")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, arguments)
    return result.exit_code, result.output


@pytest.fixture
def topology(tmp_path: Path):
    def written(**more: Any) -> str:
        data = {
            "version": 1,
            "name": "site",
            "profile": "minimal",
            "listeners": {
                "web": {"port": 80},
                "secure": {"port": 443, "tls": {"certificates": [{"cert": "a.crt", "key": "a.key", "names": ["a.b"]}]}},
            },
            "routes": [{"name": "all", "respond": {"status": 200}}],
            **more,
        }
        file = tmp_path / "site.yaml"
        file.write_text(yaml.safe_dump(data))
        return str(file)

    return written


def test_commands_that_run_engines_leave_it_out() -> None:
    assert {name for name, each in engines().items() if isinstance(each, Deployed)} == {"aws"}
    assert [each.name for each in chosen_engines(None)] == [*local_engines()]
    assert "aws" not in local_engines()


@pytest.mark.parametrize("command", ["up", "preview", "verify"])
def test_what_would_run_it_says_how_to_deploy_it(command: str) -> None:
    code, text = run(command, SHOP, "-e", "aws")
    assert code == 3
    assert "LB436: AWS ELB is deployed, not run by lbgen" in text
    assert "`lbgen render TOPOLOGY -e aws -o DIR`, then `aws cloudformation deploy --template-file DIR/aws/" in text


def test_tiers_and_exports_refuse_it(topology, tmp_path: Path) -> None:
    code, text = run("export", SHOP, "--to", "compose", "-e", "aws", "-o", str(tmp_path / "out"))
    assert code == 1
    assert "LB311: AWS ELB is a service of its own, which compose does not run" in text
    tiers = topology(tiers={"edge": {"engine": "aws"}}, listeners={"web": {"port": 80, "tier": "edge"}})
    code, text = run("preview", tiers, "--runtime", "local")
    assert (code, "LB436" in text) == (3, True)


def test_verdicts_are_shown_where_the_topology_has_its_settings(topology) -> None:
    _, text = run("explain", topology(), "--json")
    assert [*json.loads(text)] == [*local_engines()]
    _, text = run("explain", topology(engines={"aws": {"certificate_arns": {"secure": [ARN]}}}), "--json")
    assert [*json.loads(text)] == [*engines()]
    levels = {each["feature"]: each["verdict"] for each in json.loads(text)["aws"]}
    assert levels["listener.l7"] == "documented"
    _, text = run("explain", topology(), "-e", "aws")
    assert "docs     as asked, by the documentation of a system that does not run here: proven by no traffic" in text


def test_it_renders_without_the_files_of_this_host(topology, tmp_path: Path) -> None:
    """Keys and certificates are in ACM: none is read, and none is written beside the template."""
    code, _ = run("render", topology(metrics={"port": 9100}), "-e", "aws", "--accept", "all", "-o", str(tmp_path / "x"))
    assert code == 0
    assert sorted(each.name for each in (tmp_path / "x/aws").iterdir()) == [".lbgen-files", "template.yaml"]


@pytest.mark.skipif(not LINT.exists(), reason="cfn-lint is not installed")
def test_cfn_lint_checks_it(topology, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run("check", topology(), "-e", "aws", "--accept", "all")
    assert code == 0, text
    assert "AWS ELB: its own checker reports no problem" in text
    aws = engine("aws")
    broken = aws.render.__func__  # type: ignore[attr-defined]

    def misspelt(self, plan, version):
        (file,) = broken(self, plan, version)
        return (type(file)(file.name, file.text.replace("!Ref SubnetIds", "!Ref SubnetId")),)

    monkeypatch.setattr(type(aws), "render", misspelt)
    code, text = run("check", topology(), "-e", "aws", "--accept", "all")
    assert code == 1
    assert "LB401: cfn-lint 1." in text
    assert "'SubnetId' is not one of" in text


def test_without_its_checker_it_says_how_to_install_it(topology, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executables, "_places", lambda hint: iter(()))
    code, text = run("check", topology(), "-e", "aws", "--accept", "all")
    assert code == 3
    assert "LB402: no executable of cfn-lint was found, which checks its files; `pip install 'lbgen[aws]'`" in text


@pytest.mark.parametrize(
    ("arns", "place"),
    [
        ({"secur": [ARN]}, 'secur: there is no listener "secur"'),
        ({"secure": ["arn:x"]}, 'secure[0]: "arn:x" is not'),
        ({"secure": []}, "secure:"),
    ],
)
def test_certificates_are_of_listeners_and_have_arns(topology, arns: dict[str, Any], place: str) -> None:
    code, text = run("check", topology(engines={"aws": {"certificate_arns": arns}}), "--no-engines")
    assert code == 1
    assert f"engines.aws.certificate_arns.{place}" in text


@pytest.mark.parametrize(
    ("name", "listener", "place"),
    [("aws", "web", "aws.certificate_arns.web"), ("nginx", "secure", "nginx.certificate_arns")],
)
def test_certificates_that_an_engine_cannot_use_are_refused(topology, name: str, listener: str, place: str) -> None:
    made = topology(engines={name: {"certificate_arns": {listener: [ARN]}}})
    code, text = run("render", made, "-e", name, "--accept", "all")
    assert code == 1
    assert f"error LB304 engines.{place}: " in text
    assert f"{Path(made).name}:" in text


def test_urls_and_options_of_what_is_deployed() -> None:
    for arguments, said in {
        ("--against", "shop"): "is not [LISTENER=]URL",
        ("--against", "http://127.0.0.1", "--faults", "3"): "--against starts nothing",
        ("--client", "127.0.0.1"): "write --against URL",
        ("--against", "http://127.0.0.1", "-e", "aws", "--client", "::1"): "LB437: requests go over IPv4",
        ("--against", "http://127.0.0.1", "-e", "aws", "-e", "nginx"): "LB437: what is deployed is of one engine",
        ("--against", "nowhere=http://127.0.0.1", "-e", "aws"): "LB437: there is no listener 'nowhere'",
        ("--against", "https://127.0.0.1", "-e", "aws"): "is no URL of the listener",
    }.items():
        code, text = run("verify", SHOP, *arguments)
        assert (code, said in text) == (2, True), text
