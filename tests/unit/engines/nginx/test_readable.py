"""nginx.conf as an operator reads it: short, without scripts, and nothing that gixy warns of."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import lbgen
from lbgen.runtime.common.certificates import write_self_signed

if TYPE_CHECKING:
    from collections.abc import Mapping

TESTS = Path(__file__).parents[3]
SHOP = TESTS.parent / "examples/shop/topology.yaml"
GATEWAY = Path(__file__).parent / "topologies/gateway.yaml"
TENANTS = {
    "version": 1,
    "name": "tenants",
    "listeners": {"web": {"port": 8080}},
    "pools": {f"p{n}": {"endpoints": [{"address": f"10.0.{n}.1:8080"}]} for n in range(30)},
    "routes": [{"name": f"r{n}", "hosts": [f"t{n}.example"], "forward": f"p{n}"} for n in range(30)],
}
# A variable in proxy_pass names an upstream, whose servers are addresses. Routes set HSTS; gixy reads servers alone.
_RESOLVER = "'proxy_pass' uses a variable but no 'resolver'"


@pytest.fixture
def gateway(tmp_path: Path) -> Path:
    """The topology beside a certificate."""
    shutil.copy(GATEWAY, tmp_path)
    write_self_signed(tmp_path / "gateway.crt", tmp_path / "gateway.key", ("api.example",))
    return tmp_path / GATEWAY.name


def lines(files: Mapping[str, str]) -> int:
    """What nginx reads: neither blank lines nor comments."""
    texts = (text for name, text in files.items() if name.endswith(".conf"))
    return sum(bool(line.strip()) and line.strip()[0] != "#" for text in texts for line in text.splitlines())


def test_lines_that_nginx_reads(gateway):
    for source, most in ((SHOP, 150), (gateway, 280), (TENANTS, 330)):
        files = dict(lbgen.render(lbgen.load(source), engine="nginx").items())
        assert lines(files) <= most, (source, lines(files))
        assert not [name for name in files if name.endswith(".js")]
        assert not any(word in text for text in files.values() for word in ("js_", "error_page 59"))


def test_gixy_finds_nothing(tmp_path):
    """In the rendered files of the examples, which are golden ones, and of the topologies of every day."""
    pytest.importorskip("gixy")
    files = [*TESTS.glob("golden/**/nginx*/nginx.conf")]
    for source in TESTS.glob("ordinary/*.yaml"):
        files.append(_rendered(source, tmp_path / source.stem) / "nginx.conf")
    done = subprocess.run((sys.executable, "-m", "gixy", "-f", "json", *files), capture_output=True, check=False)
    found = json.loads(done.stdout[done.stdout.find(b"[") :])
    serious = [x for x in found if x["severity"] in ("MEDIUM", "HIGH") and _RESOLVER not in x["reason"]]
    assert [x for x in serious if x["plugin"] != "hsts_header"] == []
    assert len(files) > 20
    assert found, "gixy warns of what the test leaves out, so it has read the files"


def _rendered(source: Path, folder: Path) -> Path:
    """The folder with nginx's files for a topology, whose secrets and certificates are made up beside it."""
    data = yaml.safe_load(source.read_text(encoding="utf-8"))
    for name in ("secrets", "certs"):
        (folder / name).mkdir(parents=True)
    (folder / "secrets/sticky.key").write_text("0" * 64)
    for listener in data["listeners"].values():
        for each in listener.get("tls", {}).get("certificates", ()):
            write_self_signed(folder / each["cert"], folder / each["key"], tuple(each.get("names", ("a.example",))))
    lbgen.render(lbgen.load(data, base=folder), engine="nginx").write(folder / "nginx")
    return folder / "nginx"
