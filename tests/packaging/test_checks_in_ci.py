"""The pre-commit hooks and the action, run on an example repository as their users' tools run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.packaging
_INPUT = re.compile(r"\$\{\{ *([\w.]+) *\}\}")
QUICKLY = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # installed once, run three times
GOOD = (ROOT / "examples/shop/topology.yaml").read_text(encoding="utf-8")
WRONG = "version: 1\nname: wrong\nlisteners: { web: { port: 70000 } }\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two topologies, one of them wrong, and a YAML file that is none."""
    folder = tmp_path / "repository"
    (folder / "sites").mkdir(parents=True)
    (folder / "topology.yaml").write_text(GOOD, encoding="utf-8")
    (folder / "sites/wrong-topology.yaml").write_text(WRONG, encoding="utf-8")
    (folder / "other.yaml").write_text("no: topology\n", encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def run_action(folder: Path, fresh: Path, *, installed: bool = True, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the steps of action.yml one after the other; gives the last one, or the first that fails. `installed`: the
    step that installs lbgen ran before."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    assert inputs.keys() <= action["inputs"].keys()
    values = {f"inputs.{name}": str(inputs.get(name, each["default"])) for name, each in action["inputs"].items()}
    values["github.action_path"] = str(ROOT)
    install, *checks = action["runs"]["steps"]
    assert install["name"] == "Install lbgen"
    for step in checks if installed else (install, *checks):
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # an input in a script would be run
        env = {key: _INPUT.sub(lambda m: values[m[1]], text) for key, text in step["env"].items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={"PATH": f"{fresh}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8", **QUICKLY, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            return done
    return done


@pytest.mark.drill
def test_the_action_marks_lines_and_writes_sarif(repository: Path, fresh: Path) -> None:
    done = run_action(repository, fresh, installed=False, topologies="topology.yaml")
    assert done.returncode == 0, done.stderr
    assert "::notice file=topology.yaml" in done.stdout
    done = run_action(repository, fresh, topologies="**/*topology.yaml")
    assert done.returncode == 1, done.stderr
    assert "::error file=sites/wrong-topology.yaml,line=3,col=27,title=LB104" in done.stdout
    done = run_action(repository, fresh, topologies="**/*topology.yaml", format="sarif", output="lbgen.sarif")
    assert done.returncode == 1, done.stderr
    log = json.loads((repository / "lbgen.sarif").read_text(encoding="utf-8"))
    assert {each["ruleId"] for each in log["runs"][0]["results"]} >= {"LB104"}
    assert run_action(repository, fresh, topologies="nothing/*.yaml").returncode == 2


@pytest.mark.drill
def test_pre_commit_runs_the_hooks(repository: Path, tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("pre-commit clones the repository, and this is none")
    hooks = tmp_path / "lbgen"
    git(tmp_path, "clone", "-q", str(ROOT), str(hooks))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=hooks, check=True, capture_output=True, text=True).stdout
    ours = {"repo": str(hooks), "rev": commit.strip(), "hooks": [{"id": "lbgen-check"}, {"id": "lbgen-fmt"}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [ours]}), encoding="utf-8")
    git(repository, "add", ".")
    cache = {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    env = {**os.environ, **QUICKLY, **cache, "GIT_CONFIG_GLOBAL": os.devnull}

    def hook(name: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pre_commit", "run", name, "--all-files", "--color=never"]
        return subprocess.run(argv, cwd=repository, env=env, capture_output=True, text=True, check=False, timeout=600)

    done = hook("lbgen-check")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "sites/wrong-topology.yaml:3:27: error LB104" in done.stdout
    assert "topology.yaml: no errors" in done.stdout
    assert "other.yaml" not in done.stdout
    (repository / "sites/wrong-topology.yaml").write_text(GOOD, encoding="utf-8")
    assert hook("lbgen-check").returncode == 0
    (repository / "topology.yaml").write_text(GOOD.replace("name: shop\n", "name:   shop\n"), encoding="utf-8")
    done = hook("lbgen-fmt")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "files were modified by this hook" in done.stdout
