"""What a Kubernetes API server says of the exports of all examples, without running them (`build.sh` builds it)."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.runtime import stacks
from tests.kubernetes.control_plane import PROGRAMS, ROOT, WHY_NONE, Kubectl, api_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(bool(WHY_NONE), reason=WHY_NONE)
EXAMPLES = sorted(ROOT.glob("examples/*/topology.yaml"))
SHOP = ROOT / "examples/shop/topology.yaml"
KEYS = ROOT / "tests/errors"
STRICT = ("apply", "--dry-run=server", "--validate=strict")
GUARDED = {f"pod-security.kubernetes.io/{what}": "restricted" for what in ("enforce", "warn", "audit")}
SECURED = """\
version: 1
name: secured
listeners:
  web: { port: 80 }
  tls: { port: 8443, tls: { certificates: [{ cert: pair.crt, key: pair.key }] } }
metrics: { port: 9100 }
pools:
  app:
    endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080" }]
    health: { active: { path: /up } }
routes:
  - { name: app, forward: app }
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with api_server(tmp_path_factory.mktemp("server")) as plane:
        definitions = sorted(str(x) for x in (PROGRAMS / "gateway-api").glob("*.yaml"))
        files = [word for x in definitions for word in ("--filename", x)]
        plane.kubectl.run("apply", "--server-side", *files)
        plane.kubectl.run("wait", "--for", "condition=Established", "--timeout", "30s", "crd", "--all")
        yield plane.kubectl


def accepted(kubectl: Kubectl, exports: dict[str, lbgen.Exported], folder: Path) -> int:
    """How many objects of those folders, one for each namespace, the server takes without a warning."""
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": x, "labels": GUARDED}} for x in exports]
    kubectl.run("apply", "--filename", "-", given=yaml.safe_dump_all(spaces))
    for name, found in exports.items():
        found.write(folder / name)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": list(exports)}), encoding="utf-8")
    done = kubectl.run(*STRICT, "--kustomize", str(folder))
    assert done.stderr == ""
    return len(done.stdout.splitlines())


def exports_of(paths: list[Path], target: str, space: str, engine: str | None = None) -> dict[str, lbgen.Exported]:
    """The exports of all topologies that the target and the engine can express, by a namespace for each."""
    found = {}
    for path in paths:
        name = f"{space}-{path.parent.name if path.name == 'topology.yaml' else path.stem}"
        with suppress(LbgenError):  # tests/export has all of these
            words = {"engine": engine, "autoscale": True} if engine else {}
            found[name] = lbgen.export(lbgen.load(str(path)), target, accept=("all",), namespace=name, **words)
    assert len(found) > len(paths) // 2
    return found


def beside(folder: Path, name: str, text: str) -> Path:
    """A topology, with a certificate and key beside it."""
    for file in ("pair.crt", "pair.key"):
        shutil.copy(KEYS / file, folder)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("engine", ["envoy", "haproxy", "nginx", "traefik"])
def test_every_example_is_accepted_without_a_warning(engine: str, kubectl: Kubectl, tmp_path: Path) -> None:
    secured = beside(tmp_path, "secured.yaml", SECURED)
    exports = exports_of([*EXAMPLES, secured], "kubernetes", engine, engine)
    assert f"{engine}-secured" in exports
    assert accepted(kubectl, exports, tmp_path / "all") > 6 * len(exports)


def test_the_gateway_api_accepts_every_example(kubectl: Kubectl, tmp_path: Path) -> None:
    rich = beside(tmp_path, "gateway.yaml", (ROOT / "tests/export/gateway.yaml").read_text(encoding="utf-8"))
    exports = exports_of([*EXAMPLES, rich], "gateway-api", "gateway")
    assert "gateway-gateway" in exports
    assert accepted(kubectl, exports, tmp_path / "all") > 3 * len(exports)


def test_the_server_sees_a_field_that_there_is_not(kubectl: Kubectl, tmp_path: Path) -> None:
    """So that its silence means something."""
    found = lbgen.export(lbgen.load(str(EXAMPLES[-1])), "kubernetes", engine="haproxy", accept=("all",))
    found.write(tmp_path)
    for file in tmp_path.glob("*.yaml"):
        file.write_text(file.read_text(encoding="utf-8").replace("maxSurge", "mostSurge"), encoding="utf-8")
    done = kubectl.run(*STRICT, "--kustomize", str(tmp_path), check=False)
    assert done.returncode
    assert "mostSurge" in done.stderr


@pytest.fixture
def here(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kubectl:
    """That server as the one that `kubectl` uses, and a state directory of our own."""
    monkeypatch.setenv("KUBECONFIG", str(kubectl.config))
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    return kubectl


def names(kubectl: Kubectl, kind: str) -> list[str]:
    found = kubectl.get(kind, "--namespace", "default", "--selector", "app.kubernetes.io/part-of=shop")
    return [each["metadata"]["name"] for each in found["items"]]


def test_a_preview_names_what_would_be_created(here: Kubectl) -> None:
    found = lbgen.preview(lbgen.load(str(SHOP)), ["haproxy"], runtime="kubernetes", accept=("all",))
    assert [(each.name, str(each.action)) for each in found.parts] == [("haproxy", "create")]
    assert names(here, "deployments") == []


def test_a_first_start_that_does_not_get_ready_leaves_nothing(here: Kubectl) -> None:
    """There is no controller here that would start pods."""
    told: list[lbgen.Progress] = []
    with pytest.raises(LbgenError, match="LB403: haproxy: not all of its pods are ready after 2 s") as refused:
        lbgen.up(
            lbgen.load(str(SHOP)), ["haproxy"], runtime="kubernetes", accept=("all",), seconds=2, progress=told.append
        )
    assert refused.value.diagnostics
    assert told[0].detail == "the context tests, namespace default"
    for kind in ("deployments", "services", "configmaps", "networkpolicies"):
        assert names(here, kind) == []
    assert [each.name for each in stacks.ps() if each.state.runtime == "kubernetes"] == []


def test_what_is_not_ours_is_not_touched(here: Kubectl, tmp_path: Path) -> None:
    found = lbgen.export(lbgen.load(str(SHOP)), "kubernetes", engine="haproxy", accept=("all",))
    found.write(tmp_path / "export")
    here.run("apply", "--server-side", "--kustomize", str(tmp_path / "export"))
    try:
        with pytest.raises(LbgenError, match=r"LB406: .* is there, and belongs to an unknown state directory"):
            lbgen.up(lbgen.load(str(SHOP)), ["haproxy"], runtime="kubernetes", accept=("all",), seconds=2)
        assert names(here, "deployments") == ["shop"]
    finally:
        here.run("delete", "--kustomize", str(tmp_path / "export"))


def test_without_a_cluster_nothing_is_done(here: Kubectl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable, value in (("KUBECONFIG", str(tmp_path / "none")), ("PATH", str(tmp_path))):
        monkeypatch.setenv(variable, value)
        with pytest.raises(LbgenError, match="LB433"):
            lbgen.up(lbgen.load(str(SHOP)), ["haproxy"], runtime="kubernetes", accept=("all",))
